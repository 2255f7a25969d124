"""The staged file of a resumable upload: its lock goes with the request, however that ends."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path as Folder

from portico.errors import ProviderUnavailable
from portico.paths import Path
from portico.providers.local import LocalProvider

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
        for _ in range(6000):  # a thread that was cut off closes the file when it is done
            try:
                upload = await provider.resume_upload(state)
                await upload.append(once(b"x"), save)
                break
            except ProviderUnavailable:
                await asyncio.sleep(0.01)
        else:
            raise AssertionError("the lock stays")
    await (await provider.resume_upload(state)).finish(save)
    assert (tmp_path / "file").exists()
    await provider.close()
