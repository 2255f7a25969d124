"""Every operation, by a guest of each kind: allowed or refused, by REST and tus alike."""

from base64 import b64encode
from typing import Any

import pytest

from .gateways import Gateway
from .shares import GuestClient, share

KINDS = ("file", "download", "request", "both")

Y, N = True, False
MAY: dict[str, tuple[bool, bool, bool, bool]] = {
    #                    file  download  request  both
    "list": (N, Y, N, Y),
    "stat": (N, Y, N, Y),
    "search": (N, Y, N, Y),
    "walk": (N, Y, N, Y),
    "download": (Y, Y, N, Y),
    "head": (Y, Y, N, Y),
    "range": (Y, Y, N, Y),
    "ticket": (Y, Y, N, Y),
    "zip": (Y, Y, N, Y),
    "zip of chosen": (N, Y, N, Y),
    "upload form": (N, N, Y, Y),
    "put": (N, N, Y, Y),
    "put into a folder": (N, N, N, Y),
    "tus": (N, N, Y, Y),
    "tus into a folder": (N, N, N, Y),
    "mkdir": (N, N, N, Y),
    "copy": (N, N, N, N),
    "move": (N, N, N, N),
    "delete": (N, N, N, N),
    "replace": (N, N, N, N),
    "session": (N, N, N, N),
    "logout": (N, N, N, N),
    "new link": (N, N, N, N),
    "GET account/links": (N, N, N, N),
    "GET account": (N, N, N, N),
    "GET account/keys": (N, N, N, N),
    "GET account/sessions": (N, N, N, N),
    "GET trash": (N, N, N, N),
    "DELETE trash": (N, N, N, N),
    "GET jobs": (N, N, N, N),
}


def metadata(**fields: str) -> str:
    return ",".join(f"{name} {b64encode(value.encode()).decode()}" for name, value in fields.items())


async def status_of(guest: GuestClient, operation: str) -> int:
    calls: dict[str, tuple[Any, ...]] = {
        "list": ("GET", "", {"params": {"action": "LIST"}}),
        "stat": ("GET", "a.txt", {"params": {"action": "STAT"}}),
        "search": ("GET", "", {"params": {"action": "SEARCH", "name": "a"}}),
        "walk": ("GET", "", {"headers": {"Accept": "application/x-ndjson"}}),
        "download": ("GET", "a.txt", {}),
        "head": ("HEAD", "a.txt", {}),
        "range": ("GET", "a.txt", {"headers": {"Range": "bytes=1-2"}}),
        "ticket": ("POST", "a.txt", {"params": {"action": "TICKET"}}),
        "zip": ("GET", "a.txt", {"params": {"action": "ZIP"}}),
        "zip of chosen": ("POST", "", {"params": {"action": "ZIP"}, "json": {"paths": ["a.txt"]}}),
        "upload form": ("POST", "", {"files": [("data", ("form.txt", b"x"))]}),
        "put": ("PUT", "put.txt", {"content": b"x"}),
        "put into a folder": ("PUT", "new/put.txt", {"content": b"x"}),
        "mkdir": ("POST", "made", {"params": {"action": "MKDIR"}}),
        "copy": ("POST", "a.txt", {"params": {"action": "COPY", "target": "/c.txt"}}),
        "move": ("POST", "a.txt", {"params": {"action": "MOVE", "target": "/m.txt"}}),
        "delete": ("DELETE", "a.txt", {}),
    }
    client = guest.gateway.client
    if operation in calls:
        method, path, options = calls[operation]
        return (await guest.call(method, path, **options)).status_code
    if operation.startswith("tus"):
        fields = {"filename": "tus.txt"} | ({"folder": "/new"} if "folder" in operation else {})
        headers = {"Upload-Length": "1", "Upload-Metadata": metadata(**fields)}
        return (await guest.tus("POST", headers=headers)).status_code
    if operation == "replace":
        await guest.put("a.txt", b"replaced", params={"onConflict": "replace"})
        return 200 if (guest.gateway.files / "box/a.txt").read_bytes() == b"replaced" else 403
    if operation == "session":
        return (await client.get("/backend/session", headers=guest.header)).status_code
    if operation == "logout":
        return (await client.post("/backend/logout", headers=guest.header)).status_code
    if operation == "new link":
        links = "/backend/1.0.0/account/links"
        return (await client.post(links, headers=guest.header, json={"path": "/"})).status_code
    method, _, address = operation.partition(" ")
    return (await client.request(method, f"/backend/1.0.0/{address}", headers=guest.header)).status_code


@pytest.mark.parametrize("kind", KINDS)
async def test_operations(gateway: Gateway, kind: str) -> None:
    gateway.put("box/a.txt", b"content")
    gateway.put("outside.txt", b"secret")
    if kind == "file":
        guest = await (await share(gateway, "/box/a.txt")).guest()
    else:
        guest = await (await share(gateway, "/box", kind, askName=False)).guest()
    for operation, row in MAY.items():
        status = await status_of(guest, operation)
        if row[KINDS.index(kind)]:
            assert 200 <= status < 300, (operation, status)
        else:
            assert status == 403, (operation, status)
    assert (gateway.files / "box/a.txt").read_bytes() == b"content"
    if kind != "request":  # nothing leads out of the share: neither a path, nor a chosen one, nor a ticket
        for path in ("outside.txt", "../outside.txt", "%2e%2e/outside.txt", "box/a.txt"):
            answer = await guest.call("GET", path)
            assert answer.status_code in (400, 403, 404), path
            assert b"secret" not in answer.content
    if kind in ("download", "both"):
        for chosen in ("../outside.txt", "/outside.txt", "a.txt/../../outside.txt", "..", "outside.txt"):
            answer = await guest.call("POST", "", params={"action": "ZIP"}, json={"paths": [chosen]})
            assert answer.status_code in (400, 404), chosen
        (gateway.files / "box/out").symlink_to(gateway.files)
        zipped = await guest.call("GET", "", params={"action": "ZIP"})
        assert b"secret" not in zipped.content
