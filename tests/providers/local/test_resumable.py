"""The staged file of a resumable upload: its lock goes with the request, however that ends."""

import asyncio
import fcntl
import threading
from collections.abc import AsyncIterator
from pathlib import Path as Folder

import pytest

from portico.errors import ProviderUnavailable
from portico.paths import Path
from portico.providers.local import LocalProvider, staging

TYPE = "application/octet-stream"


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield bytes(2**20)
        await asyncio.sleep(0)


async def once(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def test_a_cancelled_request_leaves_no_lock(tmp_path: Folder) -> None:
    provider = LocalProvider(str(tmp_path))
    upload = await provider.begin_upload(Path(("file",)), TYPE)
    state = upload.state

    async def save() -> None:
        nonlocal state
        state = upload.state

    for rounds in range(60):
        upload = await provider.resume_upload(state)
        running = asyncio.create_task(upload.append(endless(), save))
        for _ in range(rounds % 12):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()  # again, while it waits for its thread
        await asyncio.wait([running])
        upload = await provider.resume_upload(state)
        await upload.append(once(b"x"), save)  # a thread that was cut off closes the file when it is done
    await (await provider.resume_upload(state)).finish(save)
    assert (tmp_path / "file").exists()
    await provider.close()


async def test_the_lock_of_a_dying_process_is_waited_for(
    tmp_path: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was killed has its locks until its last write is done, though it is reported as ended."""
    provider = LocalProvider(str(tmp_path))
    upload = await provider.begin_upload(Path(("file",)), TYPE)

    async def save() -> None:
        pass

    await upload.append(once(b"ab"), save)
    (staged,) = (tmp_path / ".portico~staging").iterdir()
    tried = threading.Event()
    with open(staged, "rb+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        monkeypatch.setattr("portico.providers.local.staging.time.sleep", lambda _: tried.set())
        finishing = asyncio.create_task(upload.finish(save))
        await asyncio.to_thread(tried.wait)
        assert not (tmp_path / "file").exists()
    await finishing
    assert (tmp_path / "file").read_bytes() == b"ab"
    await provider.close()


async def test_a_process_that_keeps_its_lock_is_reported(
    tmp_path: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = LocalProvider(str(tmp_path))
    upload = await provider.begin_upload(Path(("file",)), TYPE)

    async def save() -> None:
        pass

    await upload.append(once(b"ab"), save)
    (staged,) = (tmp_path / ".portico~staging").iterdir()
    monkeypatch.setattr(staging, "LOCK_WAIT_SECONDS", 0)
    with open(staged, "rb+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ProviderUnavailable, match="try again") as refusal:
            await upload.finish(save)
        assert refusal.value.retry_after
    await upload.finish(save)
    assert (tmp_path / "file").read_bytes() == b"ab"
    await provider.close()
