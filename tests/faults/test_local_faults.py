"""A real gateway on `local`, with a full disk, a database that is locked or gone, and many who want one name."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ..gateways import FILES, WAIT, wait_until
from ..servers import apt
from .figures import Effort
from .processes import TunedGateway, accounts
from .raw_http import form, get, head, post

MIB = 2**20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """64 MiB of memory as a disk: by root, or by sudo without a password."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with mounted(folder):
        yield folder


@contextmanager
def mounted(folder: Path, megabytes: int = 64) -> Iterator[None]:
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0777", "tmpfs", str(folder)]
    if os.geteuid() != 0:
        command = ["sudo", "-n", *command]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        apt.lacking("This user may not mount a disk.")
    try:
        yield
    finally:
        subprocess.run([*command[: command.index("mount")], "umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TunedGateway]:
    """One that waits for its database a second only."""
    constants = {"portico.store.database.WAIT": 1}
    gateway = TunedGateway(tmp_path_factory.mktemp("local") / "home", constants=constants)
    gateway.begin()
    yield gateway
    gateway.kill()


async def _until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """As `wait_until`, for a condition that the gateway is asked for."""
    end = asyncio.get_running_loop().time() + WAIT
    while not await condition():
        assert asyncio.get_running_loop().time() < end, f"it should be that {what}"


async def _stored(gateway: TunedGateway, disk: Path) -> bool:
    assert await gateway.put("old", b"old") == 204
    return any(disk.rglob("old"))


async def _is_unavailable(gateway: TunedGateway, path: str) -> bool:
    answer = await gateway.get(path)
    assert (answer.status, answer.code) in ((200, ""), (503, "unavailable"))
    return answer.status == 503


async def _takes_changes(gateway: TunedGateway) -> bool:
    return await gateway.put("probe", b"x", "/probe") == 204


async def _is_not_ready(gateway: TunedGateway) -> bool:
    return (await gateway.ask(get("/readyz"))).status == 503


async def _is_ready(gateway: TunedGateway) -> bool:
    return (await gateway.ask(get("/readyz"))).status == 200


async def test_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    async with Effort(False, tmp_path).gateway() as set_:
        gateway = set_.gateway
        async with accounts(gateway) as (connections, _):
            await connections.change("local", options={"folder": str(small_disk)}, secrets={})
        await _until(lambda: _stored(gateway, small_disk), "the gateway uses the new folder")
        answer = await gateway.ask(post(gateway.token, form("old", bytes(80 * MIB))))
        assert (answer.status, answer.code) == (507, "storage-full")
        several = await asyncio.gather(*(gateway.put(f"new-{number}", bytes(20 * MIB)) for number in range(5)))
        assert set(several) <= {204, 507}
        assert 507 in several
        assert (await gateway.get("/old")).body == b"old"
        stored = {f"new-{number}" for number, status in enumerate(several) if status == 204}
        assert set(await gateway.names()) == {"old", *stored}
        wait_until(lambda: not os.listdir(small_disk / ".portico~staging"), "nothing is left in the staging folder")
        for name in stored:
            assert (await gateway.ask(head("DELETE", f"{FILES}/{name}", gateway.token))).status == 204
        assert await gateway.put("after", bytes(20 * MIB)) == 204


async def test_a_node_is_not_ready_while_the_disk_of_its_home_is_full(tmp_path: Path) -> None:
    gateway = TunedGateway(tmp_path / "home")
    gateway.start()
    gateway.stop()
    gateway.home.rename(tmp_path / "kept")
    gateway.home.mkdir()
    with mounted(gateway.home):
        shutil.copytree(tmp_path / "kept", gateway.home, dirs_exist_ok=True)
        gateway.begin()
        try:
            assert await gateway.put("a", b"x") == 204
            assert not await _is_not_ready(gateway)
            with (gateway.home / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
                while True:
                    ballast.write(bytes(4096))
            await _until(lambda: _is_not_ready(gateway), "it is not ready")
            answer = await gateway.ask(get("/readyz"))
            assert answer.json()["faults"] == {"disk": "The disk of the gateway's home is full; free some space."}
            assert (await gateway.get()).status == 200  # it can still be read
            (gateway.home / "ballast").unlink()
            await _until(lambda: _is_ready(gateway), "it is ready again")
            assert (await gateway.ask(head("DELETE", f"{FILES}/a", gateway.token))).status == 204
        finally:
            gateway.kill()


async def test_a_locked_database(gateway: TunedGateway) -> None:
    """Signed-in users continue; a sign-in is refused for now."""
    locking = sqlite3.connect(gateway.home / "portico.db", isolation_level=None)
    locking.execute("BEGIN IMMEDIATE")
    try:
        assert await gateway.put("file", b"x", "/locked") == 204
        assert await gateway.names("/locked") == ["file"]
        with pytest.raises(AssertionError, match="temporarily_unavailable"):
            await asyncio.to_thread(gateway.login)
    finally:
        locking.execute("ROLLBACK")
        locking.close()
    assert (await asyncio.to_thread(gateway.login))["access_token"]
    await _until(lambda: _takes_changes(gateway), "what waited for the database is written")


async def test_a_database_that_is_gone_and_comes_back(gateway: TunedGateway) -> None:
    assert await gateway.put("file", b"x", "/gone") == 204
    place, away = gateway.home, gateway.home / "away"
    away.mkdir()
    files = [path.name for path in place.glob("portico.db*")]
    for name in files:
        shutil.move(place / name, away / name)
    await _until(lambda: _is_unavailable(gateway, "/gone"), "the cached session has expired")
    await _until(lambda: _is_not_ready(gateway), "the readiness of a second ago is not believed any more")
    for name in files:
        shutil.move(away / name, place / name)
    assert await gateway.names("/gone") == ["file"]
    await _until(lambda: _takes_changes(gateway), "what waited for the database is written")


async def test_an_upload_into_a_folder_that_is_deleted_meanwhile(gateway: TunedGateway) -> None:
    """It is stored, in a folder that was recreated, or refused. It is never half there."""
    for number in range(20):
        folder = f"/folder-{number % 2}"
        assert await gateway.put("first", b"1", folder) == 204
        removal = head("DELETE", f"{FILES}{folder}?recursive=true", gateway.token)
        status, removed = await asyncio.gather(gateway.put("file", b"x" * MIB, folder), gateway.ask(removal))
        assert removed.status == 204
        assert status in (204, 404, 409, 503)
        found = await gateway.get(f"{folder}/file")
        assert found.status in (200, 404)
        if found.status == 200:
            assert found.body == b"x" * MIB
    wait_until(lambda: not gateway.staged, "nothing is left in the staging folder")


async def test_a_walk_through_a_folder_that_is_deleted(gateway: TunedGateway) -> None:
    for name in "abc":
        assert await gateway.put(name, b"", "/folder") == 204
    cursor = (await gateway.get("/folder?size=1")).json()["nextCursor"]
    removal = head("DELETE", f"{FILES}/folder?recursive=true", gateway.token)
    assert (await gateway.ask(removal)).status == 204
    answer = await gateway.get(f"/folder?size=1&cursor={cursor}")
    assert (answer.status, answer.code) == (400, "invalid-cursor")


async def test_deleting_on_a_full_disk(tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files in the trash take up space, and the answer says so. Where nothing is held, emptying it helps."""
    monkeypatch.setenv("PORTICO_TRASH_HOLD", "0")
    async with Effort(False, tmp_path).gateway() as set_:
        gateway = set_.gateway
        async with accounts(gateway) as (connections, _):
            await connections.change("local", options={"folder": str(small_disk)}, secrets={})
        await _until(lambda: _stored(gateway, small_disk), "the gateway uses the new folder")

        async def delete(path: str) -> int:
            return (await gateway.ask(head("DELETE", path, gateway.token))).status

        async def fill_up() -> None:
            assert await gateway.put("large", bytes(40 * MIB)) == 204

        for free in (f"{FILES}/large?permanent=true", "/backend/1.0.0/trash"):
            await fill_up()
            if "trash" in free:
                assert await delete(f"{FILES}/large") == 204
            answer = await gateway.ask(post(gateway.token, form("more", bytes(40 * MIB))))
            assert (answer.status, answer.code) == (507, "storage-full")
            assert "Deleted files still take up space" in answer.json()["detail"]
            assert await delete(free) == 204
            await fill_up()
            assert await delete(f"{FILES}/large?permanent=true") == 204
