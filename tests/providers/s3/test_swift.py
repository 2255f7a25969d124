"""OpenStack Swift, which refuses to delete a file stored in parts by the ETag that it shows for it."""

from collections.abc import AsyncIterator
from secrets import token_hex

import pytest

from portico.model.errors import NotFound
from portico.model.paths import TRASH, Path
from portico.providers.contract.registry import open_provider
from portico.providers.multipart.parts import MIN_PART_BYTES
from portico.providers.s3.provider import S3Provider

from ...servers.s3_buckets import make_buckets, remove_buckets
from ...servers.swift_s3 import KEYS, swift_s3
from .actions import at, content, put

PLACE = Path((TRASH, "0123"))
LARGE = b"in parts " * (MIN_PART_BYTES // 9 + 100)


@pytest.fixture
async def provider() -> AsyncIterator[S3Provider]:
    endpoint = {"endpoint-url": swift_s3(), **KEYS}
    bucket = f"bucket-{token_hex(8)}"
    await make_buckets(endpoint, [bucket])
    provider = open_provider("s3", {"bucket": bucket, **endpoint})
    assert isinstance(provider, S3Provider)
    yield provider
    await provider.close()
    await remove_buckets(endpoint, [bucket])


async def is_there(provider: S3Provider, path: str | Path) -> bool:
    try:
        await provider.stat(at(path) if isinstance(path, str) else path)
    except NotFound:
        return False
    return True


@pytest.mark.parametrize("deleted", ["folder/large", "folder"])
async def test_deleted_file_leaves_its_folder_and_can_be_restored(provider: S3Provider, deleted: str) -> None:
    await put(provider, "folder/large", LARGE)
    await provider.move_to_trash(at(deleted), PLACE)
    assert not await is_there(provider, deleted)
    await provider.restore(PLACE, at(deleted))
    assert await content(provider, "folder/large") == LARGE
    assert not await is_there(provider, PLACE)


@pytest.mark.parametrize("moved", ["folder/large", "folder"])
async def test_moved_file_leaves_its_folder(provider: S3Provider, moved: str) -> None:
    await put(provider, "folder/large", LARGE)
    await provider.move(at(moved), at("target"))
    assert not await is_there(provider, moved)
    assert await content(provider, "target/large" if moved == "folder" else "target") == LARGE


async def test_file_deleted_for_good_is_gone(provider: S3Provider) -> None:
    await put(provider, "folder/large", LARGE)
    await provider.delete(at("folder"), recursive=True)
    assert not await is_there(provider, "folder")
