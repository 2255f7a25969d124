"""The trash over REST."""

import asyncio
import subprocess
import sys
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from sqlalchemy import update

from portico.api.tus import MEDIA_TYPE, UPLOADS
from portico.model.paths import TRASH as TRASH_FOLDER
from portico.model.paths import Path
from portico.operations.trash import sweep_trash
from portico.providers.local import staging, uploads
from portico.providers.local.provider import LocalProvider
from portico.runtime import processes
from portico.store.leases import Leases
from portico.store.tables import leases, trash
from portico.store.trash import TrashRecords

from .conftest import Clock, OpenGateway
from .gateways import Gateway, form, named
from .shares import metadata

TRASH = "/backend/1.0.0/trash"


async def call(
    gateway: Gateway, method: str, address: str = "", user: str = "web", **parameters: str
) -> httpx2.Response:
    headers = await gateway.sign_in(user)
    return await gateway.client.request(method, TRASH + address, headers=headers, params=parameters)


async def listed(gateway: Gateway, user: str = "web") -> list[dict[str, object]]:
    response = await call(gateway, "GET", user=user)
    assert response.status_code == 200
    assert response.json()["nextCursor"] is None
    content: list[dict[str, object]] = response.json()["content"]
    return content


async def test_a_restore_that_may_become_a_job_waits_once(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.put("a.txt")
    trash_id = (await gateway.call("DELETE", "a.txt")).headers["X-Trash-Id"]
    monkeypatch.setattr("portico.operations.actors.request_context.MAX_WAITING", 1)
    headers = {**await gateway.sign_in(), "Prefer": "respond-async, wait=30"}
    restored = await gateway.client.post(f"{TRASH}/{trash_id}", headers=headers, params={"action": "RESTORE"})
    assert restored.status_code == 201
    assert (gateway.files / "a.txt").exists()


async def test_of_many_who_replace_a_file_none_loses_what_another_stored(gateway: Gateway) -> None:
    sizes = [*range(1, 13)]
    gateway.put("file", bytes(100))
    answers = await asyncio.gather(*(gateway.call("PUT", "file", content=bytes(size)) for size in sizes))
    assert {answer.status_code for answer in answers} == {204}
    kept = [gateway.files.parent / TRASH_FOLDER / str(item["id"]) for item in await listed(gateway)]
    found = sorted(file.stat().st_size for file in [*kept, gateway.files / "file"])
    assert found == [*sizes, 100]


async def test_a_file_that_vanishes_before_it_is_kept_is_not_missed(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = staging.link_replaced

    def vanishing(*arguments: Any) -> bool:
        (gateway.files / "file").unlink()
        return link(*arguments)

    gateway.put("file", b"old")
    monkeypatch.setattr(uploads, "link_replaced", vanishing)
    assert (await gateway.call("PUT", "file", content=b"new")).status_code == 201
    assert (gateway.files / "file").read_bytes() == b"new"
    assert await listed(gateway) == []


async def test_undo_is_one_request(gateway: Gateway) -> None:
    gateway.put("docs/a.txt", b"a")
    deleted = await gateway.call("DELETE", "docs", params={"recursive": "true"})
    assert (deleted.status_code, deleted.content) == (204, b"")
    (item,) = await listed(gateway)
    assert item["id"] == deleted.headers["X-Trash-Id"]
    assert (item["path"], item["name"], item["isFolder"]) == ("/docs", "docs", True)
    assert (item["reason"], item["size"], item["deletedBy"]) == ("deleted", None, "web")
    assert str(item["deletedAt"]) < str(item["expiresAt"])
    assert [entry["name"] for entry in (await gateway.list()).json()["content"]] == ["/"]
    restored = await call(gateway, "POST", f"/{item['id']}", action="RESTORE")
    assert (restored.status_code, restored.headers["Location"][-5:]) == (201, "/docs")
    assert (gateway.files / "docs/a.txt").read_bytes() == b"a"
    assert await listed(gateway) == []
    again = await call(gateway, "POST", f"/{item['id']}", action="RESTORE")
    assert (again.status_code, again.json()["code"]) == (404, "not-found")


async def test_every_way_to_replace_a_file_can_be_undone(gateway: Gateway) -> None:
    gateway.put("f", b"old")
    gateway.put("other", b"other")
    responses = [
        await gateway.upload("", {"f": b"form"}),
        await gateway.call("PUT", "f", content=b"put"),
        await gateway.call("PUT", "f", content=b"key", headers={"Idempotency-Key": "k"}),
        await gateway.call("POST", "other", params={"action": "COPY", "target": "/f"}),
        await gateway.call("POST", "other", params={"action": "MOVE", "target": "/f"}),
    ]
    assert all(response.is_success for response in responses)
    replayed = await gateway.call("PUT", "f", content=b"key", headers={"Idempotency-Key": "k"})
    assert replayed.headers["X-Trash-Id"] == responses[2].headers["X-Trash-Id"]
    for response, content in zip(responses, (b"old", b"form", b"put", b"key", b"other"), strict=True):
        address = f"/{response.headers['X-Trash-Id']}"
        taken = await call(gateway, "POST", address, action="RESTORE")
        assert (taken.status_code, taken.json()["code"]) == (409, "already-exists")
        undone = await call(gateway, "POST", address, action="RESTORE", onConflict="replace")
        assert undone.status_code == 201
        assert undone.headers["X-Trash-Id"]
        assert (gateway.files / "f").read_bytes() == content
    beside = await call(gateway, "POST", f"/{undone.headers['X-Trash-Id']}", action="RESTORE", onConflict="rename")
    assert beside.headers["Location"].endswith("/f%20(1)")
    new = await gateway.call("PUT", "new", content=b"new")
    assert "X-Trash-Id" not in new.headers


async def test_a_resumable_upload_says_what_it_replaced(gateway: Gateway) -> None:
    headers = {**await gateway.sign_in(), "Tus-Resumable": "1.0.0", "Content-Type": MEDIA_TYPE}
    begin = {**headers, "Upload-Metadata": metadata(filename="f"), "Upload-Length": "3"}
    for content in (b"old", b"new", b"now"):
        if content == b"now":  # in two requests
            begun = await gateway.client.post(UPLOADS, headers=begin)
            assert "X-Trash-Id" not in begun.headers
            sent = await gateway.client.patch(
                begun.headers["Location"], headers={**headers, "Upload-Offset": "0"}, content=content
            )
        else:
            sent = await gateway.client.post(UPLOADS, headers=begin, content=content)
        assert ("X-Trash-Id" in sent.headers) == (content != b"old")
    assert sent.headers["X-Trash-Id"] == (await listed(gateway))[0]["id"]


async def test_a_form_that_fails_midway_says_what_it_replaced(gateway: Gateway) -> None:
    gateway.put("f", b"old")
    failed = await gateway.send_form(form(named("f"), named("f")))
    assert (failed.status_code, failed.json()["stored"]) == (400, ["f"])
    assert [item["id"] for item in await listed(gateway)] == [failed.headers["X-Trash-Id"]]


async def test_it_can_be_removed_for_good(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"trash.hold": "0"})
    for name in "abcd":
        gateway.put(name)
        parameters = {"permanent": "true"} if name == "d" else {}
        deleted = await gateway.call("DELETE", name, params=parameters)
        assert ("X-Trash-Id" in deleted.headers) == (name != "d")
    items = await listed(gateway)
    assert [item["name"] for item in items] == ["c", "b", "a"]
    first = (await call(gateway, "GET", size="2")).json()
    rest = (await call(gateway, "GET", size="2", cursor=first["nextCursor"])).json()
    assert first["content"] + rest["content"] == items
    assert (await call(gateway, "DELETE", f"/{items[0]['id']}")).status_code == 204
    assert (await call(gateway, "DELETE", f"/{items[0]['id']}")).status_code == 404
    assert (await call(gateway, "DELETE")).status_code == 204
    assert await listed(gateway) == []
    assert list((gateway.settings.files_folder / ".portico~trash").iterdir()) == []


async def test_what_is_removed_for_good_is_held_out_of_sight(gateway: Gateway, clock: Clock) -> None:
    gateway.put("docs/b")
    for name in "ac":
        gateway.put(name)
    first = (await gateway.call("DELETE", "a")).headers["X-Trash-Id"]
    await gateway.call("DELETE", "c")
    for name in ("docs",):
        gone = await gateway.call("DELETE", name, params={"permanent": "true", "recursive": "true"})
        assert (gone.status_code, "X-Trash-Id" in gone.headers) == (204, False)
    assert (await call(gateway, "DELETE", f"/{first}")).status_code == 204
    assert (await call(gateway, "DELETE")).status_code == 204
    for method, parameters in (("DELETE", {}), ("POST", {"action": "RESTORE"})):
        assert (await call(gateway, method, f"/{first}", **parameters)).status_code == 404
    assert await listed(gateway) == []
    folder, database = gateway.settings.files_folder / ".portico~trash", gateway.users._database
    assert len(list(folder.iterdir())) == 3
    pool = gateway.services.gateway.operations.args[0].trees.pool  # type: ignore[attr-defined]
    clock.advance((gateway.settings.trash_hold - timedelta(hours=1)).total_seconds())
    await sweep_trash(TrashRecords(database), pool, gateway.settings.trash_retention)
    assert len(list(folder.iterdir())) == 3
    clock.advance(2 * 3600)
    await sweep_trash(TrashRecords(database), pool, gateway.settings.trash_retention)
    assert list(folder.iterdir()) == []


async def test_what_another_process_works_on_is_left_alone_until_that_ends(gateway: Gateway) -> None:
    database = gateway.users._database
    gateway.put("a")
    trash_id = (await gateway.call("DELETE", "a")).headers["X-Trash-Id"]
    await database.execute(update(trash).values(status="restoring"))
    assert await Leases(database, "other").acquire(f"trash:{trash_id}")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        name = processes.name_of.__wrapped__(process.pid)
        mine = leases.c.name == f"trash:{trash_id}"
        await database.execute(update(leases).where(mine).values(owner=f"{name}-0123@other"))
        for method, parameters in (("POST", {"action": "RESTORE"}), ("DELETE", {})):
            busy = await call(gateway, method, f"/{trash_id}", **parameters)
            assert (busy.status_code, busy.json()["code"]) == (409, "not-possible")
            assert "being restored" in busy.json()["detail"]
        assert (await call(gateway, "DELETE")).status_code == 204
        assert len(await listed(gateway)) == 1
        process.kill()
    assert (await call(gateway, "POST", f"/{trash_id}", action="RESTORE")).status_code == 201
    assert (gateway.files / "a").exists()


async def test_what_a_dead_process_was_restoring_is_emptied_too(gateway: Gateway) -> None:
    gateway.put("a")
    await gateway.call("DELETE", "a")
    await gateway.users._database.execute(update(trash).values(status="restoring"))
    assert (await call(gateway, "DELETE")).status_code == 204
    assert await listed(gateway) == []
    assert '"trash.remove"' in (gateway.settings.home / "audit.log").read_text()


async def test_rights_and_bad_requests(gateway: Gateway) -> None:
    gateway.put("a")
    deleted = await gateway.call("DELETE", "a")
    address = f"/{deleted.headers['X-Trash-Id']}"
    assert [item["name"] for item in await listed(gateway, "reader")] == ["a"]
    for user in ("reader", "writer", "dropper"):
        for method, where in (("POST", address), ("DELETE", address), ("DELETE", "")):
            parameters = {"action": "RESTORE"} if method == "POST" else {}
            refused = await call(gateway, method, where, user, **parameters)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await call(gateway, "GET", user="dropper")).status_code == 403
    for method, where, parameters, status in (
        ("GET", "", {"cursor": "x"}, 400),
        ("GET", "", {"cursor": ""}, 400),
        ("GET", "", {"size": "0"}, 400),
        ("POST", address, {}, 400),
        ("POST", address, {"action": "MOVE"}, 400),
        ("POST", address, {"action": "RESTORE", "onConflict": "x"}, 400),
        ("POST", "/..%2fx", {"action": "RESTORE"}, 404),
        ("POST", "/" + "0" * 24, {"action": "RESTORE"}, 404),
        ("GET", address, {}, 405),
    ):
        response = await call(gateway, method, where, **parameters)
        assert response.status_code == status, (method, where, parameters)
    assert (await gateway.client.get(TRASH)).status_code == 401
    reserved = await gateway.call("GET", ".portico~trash")
    assert reserved.status_code == 400


async def test_it_expires(gateway: Gateway, clock: Clock) -> None:
    for name in "abc":
        gateway.put(name)
        await gateway.call("DELETE", name)
    folder = gateway.settings.files_folder / ".portico~trash"
    database = gateway.users._database
    keep = gateway.settings.trash_retention
    pool = gateway.services.gateway.operations.args[0].trees.pool  # type: ignore[attr-defined]
    clock.advance((keep - timedelta(hours=1)).total_seconds())
    await sweep_trash(TrashRecords(database), pool, keep)
    assert len(list(folder.iterdir())) == 3
    clock.advance(2 * 3600)
    await sweep_trash(TrashRecords(database), pool, keep, at_once=2)
    assert list(folder.iterdir()) == []
    assert await listed(gateway) == []


@pytest.mark.parametrize("kind", ["remove", "empty"])
async def test_a_removal_that_takes_long_is_a_job(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    gateway = await open_gateway(**{"trash.hold": "0"})
    gateway.put("docs/a.txt", b"a")
    trash_id = (await gateway.call("DELETE", "docs", params={"recursive": "true"})).headers["X-Trash-Id"]
    purge, go_on = LocalProvider.purge, asyncio.Event()

    async def slow(provider: LocalProvider, place: Path) -> None:
        await go_on.wait()
        await purge(provider, place)

    monkeypatch.setattr(LocalProvider, "purge", slow)
    headers = {**await gateway.sign_in(), "Prefer": "respond-async, wait=0"}
    address = f"{TRASH}/{trash_id}" if kind == "remove" else TRASH
    accepted = await gateway.client.delete(address, headers=headers)
    assert accepted.status_code == 202
    job = accepted.json()
    assert (job["kind"], job["state"]) == (kind, "running")
    assert job["source"] == ("/docs" if kind == "remove" else "/")
    go_on.set()
    while job["state"] == "running":
        job = (await gateway.client.get(accepted.headers["Location"], headers=headers)).json()
    assert job["state"] == "done"
    assert await listed(gateway) == []
    # One that is quick is answered as before.
    gateway.put("b.txt")
    await gateway.call("DELETE", "b.txt")
    assert (await call(gateway, "DELETE")).status_code == 204


@pytest.mark.parametrize("end", ["cancelled", "failed"])
async def test_a_deletion_that_is_cut_off_says_what_it_has_deleted(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    gateway.put("docs/a.txt", b"a")
    move = LocalProvider.move_to_trash
    moved = asyncio.Event()

    async def endless(*arguments: Any) -> None:
        await move(*arguments)
        moved.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(LocalProvider, "move_to_trash", endless)
    asked = {"Prefer": "respond-async, wait=0"}
    accepted = await gateway.call("DELETE", "docs", params={"recursive": "true"}, headers=asked)
    address, headers = accepted.headers["Location"], await gateway.sign_in()
    await moved.wait()  # a cancellation before that would be ignored, since the move is done
    if end == "cancelled":
        assert (await gateway.client.delete(address, headers=headers)).status_code == 202
    else:
        gateway.stop()
    job = accepted.json()
    while job["state"] == "running":
        job = (await gateway.client.get(address, headers=headers)).json()
    assert job["state"] == end
    assert [item["id"] for item in await listed(gateway)] == [job["trashId"]]


async def test_an_error_names_what_it_was(gateway: Gateway) -> None:
    gateway.put("docs/a.txt", b"a")
    trash_id = (await gateway.call("DELETE", "docs/a.txt")).headers["X-Trash-Id"]
    (gateway.settings.files_folder / ".portico~trash" / trash_id).unlink()
    lost = await call(gateway, "POST", f"/{trash_id}", action="RESTORE")
    assert (lost.status_code, lost.json()["code"]) == (404, "not-found")
    assert lost.json()["detail"] == "The content of 'a.txt' is no longer in the storage, so it can't be restored."


async def test_it_can_be_turned_off(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"trash.retention": "0"})
    gateway.put("a", b"old")
    replaced = await gateway.call("PUT", "a", content=b"new")
    deleted = await gateway.call("DELETE", "a")
    for response in (replaced, deleted):
        assert response.status_code == 204
        assert "X-Trash-Id" not in response.headers
    assert await listed(gateway) == []
    assert not (gateway.settings.files_folder / ".portico~trash").exists()
    assert "keepsDeleted = false;" in (await gateway.client.get("/config.js")).text
