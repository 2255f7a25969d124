"""The staged file of a resumable upload: what a request does with it, and its lock, which goes with the request."""

import asyncio
import fcntl
import threading
from collections.abc import AsyncIterator
from pathlib import Path as Folder
from typing import Any

import pytest

from portico.model.errors import NotFound, OffsetMismatch, ProviderUnavailable, UploadTakenOver
from portico.model.paths import Path
from portico.providers.local import staging
from portico.providers.local.provider import LocalProvider
from portico.runtime.threads import ThreadPool

TYPE = "application/octet-stream"


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield bytes(2**20)
        await asyncio.sleep(0)


async def save(*, last: bool = False) -> None:
    """For tests in which nothing has to be saved."""


async def once(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def test_a_cancelled_request_leaves_no_lock(tmp_path: Folder) -> None:
    provider = LocalProvider(str(tmp_path))
    upload = await provider.begin_upload(Path(("file",)), TYPE)
    state = upload.state

    async def save(*, last: bool = False) -> None:
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


async def test_the_lock_of_a_dying_process_is_waited_for(tmp_path: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was killed has its locks until its last write is done, though it is reported as ended."""
    provider = LocalProvider(str(tmp_path))
    upload = await provider.begin_upload(Path(("file",)), TYPE)

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


async def test_a_process_that_keeps_its_lock_is_reported(tmp_path: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = LocalProvider(str(tmp_path))
    upload = await provider.begin_upload(Path(("file",)), TYPE)

    await upload.append(once(b"ab"), save)
    (staged,) = (tmp_path / ".portico~staging").iterdir()
    monkeypatch.setattr(staging, "LOCK_WAIT_SECONDS", 0)
    with open(staged, "rb+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ProviderUnavailable, match="Try again") as refusal:
            await upload.finish(save)
        assert refusal.value.retry_after
    await upload.finish(save)
    assert (tmp_path / "file").read_bytes() == b"ab"
    await provider.close()


async def test_a_small_part_takes_one_call_of_a_thread(tmp_path: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = LocalProvider(str(tmp_path))
    upload = await provider.begin_upload(Path(("file",)), TYPE)

    await upload.append(once(b"ab"), save)
    calls: list[object] = []
    start = ThreadPool.start

    def counted(pool: ThreadPool, work: Any, *arguments: Any) -> Any:
        calls.append(work)
        return start(pool, work, *arguments)

    monkeypatch.setattr(ThreadPool, "start", counted)
    upload = await provider.resume_upload(upload.state, known_offset=2)
    await upload.append(once(b"cd"), save)
    assert len(calls) == 1
    assert (await provider.resume_upload(upload.state)).offset == upload.offset == 4
    await provider.close()


async def test_a_known_offset_is_verified(tmp_path: Folder) -> None:
    provider = LocalProvider(str(tmp_path))
    upload = await provider.begin_upload(Path(("file",)), TYPE)
    saves = 0

    async def save(*, last: bool = False) -> None:
        nonlocal saves
        saves += 1

    await upload.append(once(b"abcd"), save)
    (staged,) = (tmp_path / ".portico~staging").iterdir()

    saves = 0
    shorter = await provider.resume_upload(upload.state, known_offset=5)
    with pytest.raises(OffsetMismatch, match="4 bytes"):  # lost in a power failure
        await shorter.append(once(b"x"), save)
    assert (saves, staged.read_bytes()) == (0, b"abcd")

    longer = await provider.resume_upload(upload.state, known_offset=2)
    await longer.append(once(b"X"), save)  # what was not acknowledged is sent again
    assert (saves, staged.read_bytes()) == (2, b"abX")

    staged.unlink()
    gone = await provider.resume_upload(upload.state, known_offset=3)
    with pytest.raises(NotFound, match="Send the file again"):
        await gone.append(once(b"x"), save)
    await provider.close()


async def test_an_upload_that_was_taken_over_removes_nothing(tmp_path: Folder) -> None:
    provider = LocalProvider(str(tmp_path))
    upload = await provider.begin_upload(Path(("file",)), TYPE)

    async def refused(*, last: bool = False) -> None:
        raise UploadTakenOver

    await upload.append(once(b"abcd"), save)
    older = await provider.resume_upload(upload.state, known_offset=2)
    with pytest.raises(UploadTakenOver):
        await older.append(once(b"X"), refused)
    (staged,) = (tmp_path / ".portico~staging").iterdir()
    assert staged.read_bytes() == b"abcd"
    await upload.append(once(b"e"), save)  # and its lock is gone
    await provider.close()


async def test_what_another_program_appended_does_not_count(tmp_path: Folder) -> None:
    provider = LocalProvider(str(tmp_path))
    upload = await provider.begin_upload(Path(("file",)), TYPE)
    await upload.append(once(b"abcd"), save)
    (staged,) = (tmp_path / ".portico~staging").iterdir()
    staged.write_bytes(b"abcdXYZ")
    again = await provider.resume_upload(upload.state, known_offset=4, trusted=False)
    assert again.offset == 4
    assert (await again.finish(save)).size == 4
    assert (tmp_path / "file").read_bytes() == b"abcd"
    await provider.close()
