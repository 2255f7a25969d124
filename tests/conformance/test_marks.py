"""The mark of an upload, by which another process finds out whether the upload has stored its file."""

from datetime import UTC, datetime

import pytest

from portico.model.paths import Path
from portico.providers.contract.provider import Provider
from portico.providers.contract.uploads import WriteOptions

from .actions import at, pieces
from .test_resumable import begun

FILE = at("a/marked")
MARK = "0123456789abcdef" * 2
TYPE = "text/plain"


async def put(provider: Provider, mark: str | None = None, modified: datetime | None = None, path: Path = FILE) -> None:
    await provider.write(path, pieces(b"content"), TYPE, WriteOptions(mark=mark, modified=modified))


@pytest.mark.parametrize("modified", [None, datetime(2019, 5, 4, 3, 2, 1, 234_000, tzinfo=UTC)], ids=["now", "dated"])
async def test_a_file_keeps_the_mark_of_its_upload_until_it_is_replaced(
    provider: Provider, modified: datetime | None
) -> None:
    assert not await provider.has_mark(FILE, MARK, 7)
    await put(provider, MARK, modified)
    assert await provider.has_mark(FILE, MARK, 7)
    assert not await provider.has_mark(FILE, MARK, 8)
    assert not await provider.has_mark(FILE, MARK[1:], 7)
    if modified:
        assert (await provider.stat(FILE)).modified == modified
    await put(provider)
    assert not await provider.has_mark(FILE, MARK, 7)


async def test_the_file_of_a_resumable_upload_has_its_mark(provider: Provider) -> None:
    row = await begun(provider, FILE, size=7)
    await row.append(pieces(b"content"))
    upload = await row.resumed(provider)
    mark = upload.mark
    assert not await provider.has_mark(FILE, mark, 7)
    await upload.finish(row.save)
    assert await provider.has_mark(FILE, mark, 7)
