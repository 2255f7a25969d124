"""The activity of files and folders over REST."""

import asyncio

from .gateways import Gateway


async def test_what_happened_is_listed_page_by_page(gateway: Gateway) -> None:
    for content in (b"1", b"22"):
        await gateway.call("PUT", "d/f.txt", content=content)
    await gateway.call("POST", "d/f.txt", params={"action": "MOVE", "target": "/d/g.txt"})
    async with asyncio.timeout(60):  # a row of a change that has kept nothing follows its response
        while len((await gateway.call("GET", "d", params={"action": "ACTIVITY"})).json()["events"]) < 3:
            await asyncio.sleep(0.01)
    first = (await gateway.call("GET", "d", params={"action": "ACTIVITY", "size": "2"})).json()
    moved, replaced = first["events"]
    assert moved == {
        "at": moved["at"],
        "action": "moved",
        "path": "/d/g.txt",
        "source": "/d/f.txt",
        "isFolder": False,
        "size": 2,
        "user": "web",
        "byLink": False,
        "guest": None,
        "trashId": None,
    }
    assert (replaced["action"], replaced["path"]) == ("replaced", "/d/f.txt")
    cursor = first["nextCursor"]
    second = (await gateway.call("GET", "d", params={"action": "ACTIVITY", "cursor": cursor})).json()
    assert ([event["action"] for event in second["events"]], second["nextCursor"]) == (["stored"], None)
    restore = {"action": "RESTORE"}
    headers = await gateway.sign_in()
    restored = await gateway.client.post(f"/backend/1.0.0/trash/{replaced['trashId']}", headers=headers, params=restore)
    assert restored.status_code == 201
    assert (gateway.files / "d/f.txt").read_bytes() == b"1"
    for path, other in (("", cursor), ("d", f"{cursor}x"), ("d", "")):
        refused = await gateway.call("GET", path, params={"action": "ACTIVITY", "cursor": other})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid-cursor")
