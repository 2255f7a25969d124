"""Unfinished uploads are limited: by user, by link, by address, and in bytes. None of it delays anybody else."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import func, select

from portico.operations.uploads import resumable
from portico.operations.uploads.expiry import sweep_uploads
from portico.store.database import Database
from portico.store.tables import uploads

from ..gateways import Gateway
from ..shares import GuestClient, owner, share
from .client import Tus, code, metadata


async def rows(gateway: Gateway) -> int:
    database = Database(gateway.settings.database_url)
    try:
        row = await database.first(select(func.count().label("number")).select_from(uploads))
        assert row
        return int(row.number)
    finally:
        await database.close()


async def begun(guest: GuestClient) -> int:
    named = {"Upload-Length": "6", "Upload-Metadata": metadata(filename="new.txt")}
    return (await guest.tus("POST", headers=named)).status_code


async def test_a_burst_passes_exactly_the_limit(gateway: Gateway, tus: Tus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable, "MAX_OPEN", 5)
    named = metadata(filename="a")
    answers = await asyncio.gather(*(tus.call("POST", Upload_Length="1", Upload_Metadata=named) for _ in range(20)))
    assert sorted(each.status_code for each in answers) == [201] * 5 + [429] * 15


async def test_a_link_does_not_use_up_what_other_links_and_the_owner_have(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable, "MAX_OPEN_OF_ADDRESS", 3)
    monkeypatch.setattr(resumable, "MAX_OPEN", 3)
    gateway.put("box/a.txt")
    abused, other = await share(gateway, kind="request", askName=False), await share(gateway, kind="both")
    guests = [await abused.guest() for _ in range(4)]
    answers = await asyncio.gather(*(begun(guest) for guest in guests * 3))
    assert sorted(answers) == [201] * 3 + [429] * 9
    assert await begun(await other.guest()) == 201
    sharer = Tus(gateway, "sharer")
    for _ in range(3):
        await sharer.create(1)
    refused = await sharer.call("POST", Upload_Length="1", Upload_Metadata=metadata(filename="b"))
    assert (refused.status_code, code(refused)) == (429, "too-many-requests")


@pytest.mark.parametrize("how", ["ended", "renewed"])
async def test_the_uploads_of_a_link_end_with_it(gateway: Gateway, how: str) -> None:
    gateway.put("box/a.txt")
    shared = await share(gateway, kind="request", askName=False)
    guest = await shared.guest()
    named = {"Upload-Length": "6", "Upload-Metadata": metadata(filename="new.txt")}
    where = (await guest.tus("POST", headers=named)).headers["Location"]
    piece = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": "0"}
    assert (await guest.tus("PATCH", where, headers=piece, content=b"abc")).status_code == 204
    assert gateway.left_over
    if how == "ended":
        await shared.end()
    else:
        await owner(gateway, "POST", f"/{shared.body['id']}/address")
    features = gateway.services.gateway.operations.args[0]  # type: ignore[attr-defined]
    await sweep_uploads(features.uploads.uploads, features.trees.pool)
    assert not gateway.left_over
    assert await rows(gateway) == 0


async def test_an_empty_upload_expires_soon(gateway: Gateway, tus: Tus, clock: Any) -> None:
    empty, begun = await tus.create(), await tus.create(name="b.bin")
    await tus.patch(begun, 0, b"x")
    clock.advance(3601)
    assert (await tus.call("HEAD", empty)).status_code == 404
    assert await tus.offset(begun) == 1


async def test_padded_metadata_is_limited_in_bytes(gateway: Gateway, tus: Tus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable, "MAX_OPEN", 10)
    padded = metadata(filename="a", padding="x" * 2900)
    statuses = [(await tus.call("POST", Upload_Length="1", Upload_Metadata=padded)).status_code for _ in range(4)]
    assert statuses == [201, 201, 201, 429]
