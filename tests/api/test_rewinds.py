"""Users undo their own changes over REST."""

import asyncio
from typing import Any

import httpx2

from portico.api.rewinds import REWINDS

from .gateways import Gateway


async def asked(gateway: Gateway, method: str, address: str, **options: Any) -> httpx2.Response:
    return await gateway.client.request(method, address, headers=await gateway.sign_in(), **options)


async def test_plan_start_and_report(gateway: Gateway) -> None:
    await gateway.call("PUT", "a.txt", content=b"old")
    times = (await asked(gateway, "POST", REWINDS, json={"since": "2000-01-01T00:00:00Z", "dryRun": True})).json()
    assert (times["id"], times["state"], times["until"], times["path"]) == (None, "planned", None, "/")
    async with asyncio.timeout(60):  # the row of a new file follows the response
        while not (plan := (await planned(gateway))["steps"])["remove"]:
            await asyncio.sleep(0.01)
    assert plan == {"restore": 0, "remove": 1, "move": 0, "make": 0, "tidy": 0}
    for body in ({}, {"since": "yesterday"}, {"since": "2100-01-01"}, {"since": "2000-01-01", "below": "/"}):
        assert (await asked(gateway, "POST", REWINDS, json=body)).status_code == 400
    begun = await asked(gateway, "POST", REWINDS, json={"since": "2000-01-01"})
    assert begun.status_code in (200, 202)
    async with asyncio.timeout(60):
        while (found := (await asked(gateway, "GET", begun.headers["Location"])).json())["state"] == "running":
            await asyncio.sleep(0.01)
    assert (found["state"], found["stepsDone"], found["leftAlone"]) == ("done", 1, [])
    assert not (gateway.files / "a.txt").exists()
    assert found["id"] == begun.json()["id"]


async def planned(gateway: Gateway) -> dict[str, Any]:
    body: dict[str, Any] = (
        await asked(gateway, "POST", REWINDS, json={"since": "2000-01-01T00:00:00Z", "dryRun": True})
    ).json()
    return body


async def test_one_that_takes_longer_is_a_job(gateway: Gateway) -> None:
    await gateway.call("PUT", "a.txt", content=b"old")
    async with asyncio.timeout(60):
        while not (await planned(gateway))["steps"]["remove"]:
            await asyncio.sleep(0.01)
    headers = {**await gateway.sign_in(), "Prefer": "respond-async, wait=0"}
    begun = await gateway.client.post(REWINDS, headers=headers, json={"since": "2000-01-01"})
    assert begun.status_code == 202
    job = begun.json()["job"]
    assert (begun.json()["state"], job["kind"], job["source"]) == ("running", "rewind", "/")
    async with asyncio.timeout(60):
        while (ended := (await asked(gateway, "GET", f"/backend/1.0.0/jobs/{job['id']}")).json())["state"] == "running":
            await asyncio.sleep(0.01)
    assert (ended["state"], ended["entriesDone"], ended["entriesTotal"]) == ("done", 1, 1)
    assert not (gateway.files / "a.txt").exists()
