"""How deep and how long a path may be."""

import pytest

from portico.model.errors import InvalidPath, NotAFolder, NotFound
from portico.model.paths import Path
from portico.providers.contract.provider import Provider
from portico.providers.contract.uploads import WriteOptions
from portico.providers.objects.service import ObjectService

from ..recorded_drive import RecordedDrive
from .actions import at, content, names, pieces, put

pytestmark = pytest.mark.above_services

LONGEST = 1024


@pytest.mark.drive_alone
async def test_what_is_made_may_be_so_deep_and_no_deeper(provider: Provider, root: Path, drive: RecordedDrive) -> None:
    shallow = RecordedDrive(provider, root, drive.rights, drive._seal, path_depth=3)
    await shallow.check_target(at("a/b"))
    with pytest.raises(InvalidPath):  # a file in it would lie too deep
        await shallow.check_target(at("a/b/c"))
    await put(shallow, "a/b/file", b"x")
    await shallow.make_folder(at("a/b/c"))
    for path in ("a/b/c/d", "a/b/c/d/e"):
        with pytest.raises(InvalidPath):
            await shallow.make_folder(at(path))
        with pytest.raises(InvalidPath):
            await put(shallow, path, b"x")
        with pytest.raises(InvalidPath):
            await shallow.copy(at("a/b/file"), at(path))
        with pytest.raises(InvalidPath):
            await shallow.move(at("a/b/file"), at(path))
        with pytest.raises(NotFound):
            await shallow.stat(at(path))
    with pytest.raises(InvalidPath):
        await shallow.check_target(at("a/b/c/d"))


async def test_what_lies_deeper_can_be_read_and_removed(provider: Provider, root: Path, drive: RecordedDrive) -> None:
    await put(drive, "a/b/c/d/file", b"deep")
    shallow = RecordedDrive(provider, root, drive.rights, drive._seal, path_depth=2)
    assert await content(shallow, "a/b/c/d/file") == b"deep"
    assert await names(shallow, "a/b/c/d") == ["file"]
    await shallow.copy(at("a/b/c/d/file"), at("up"))
    await shallow.delete(at("a/b/c/d"), recursive=True)
    with pytest.raises(NotFound):
        await shallow.stat(at("a/b/c/d"))


@pytest.mark.object_services
@pytest.mark.both_roots
async def test_a_key_of_the_greatest_length_is_a_file_like_any_other(
    provider: Provider, drive: RecordedDrive, root: Path
) -> None:
    assert isinstance(provider, ObjectService)
    above = "/".join(["l" * 250] * 3)
    room = LONGEST - len(f"{above}/") - sum(len(name) + 1 for name in root.segments)
    path, longer = f"{above}/{'l' * room}", f"{above}/{'l' * (room + 1)}"
    key = "/".join([*root.segments, path])
    assert len(key) == LONGEST
    await provider.store(key, pieces(b"long"), "text/plain", WriteOptions())
    assert await names(drive, above) == ["l" * room]
    assert (await drive.stat(at(path))).size == 4
    assert (await drive.stat(at(f"{path}/"))).size == 4
    assert await content(drive, path) == b"long"
    for file_first in (False, True):
        with pytest.raises(NotAFolder):
            await drive.list_page(at(path), 10, file_first=file_first)
    with pytest.raises(InvalidPath):
        await drive.make_folder(at(path))
    for look in (drive.stat, drive.read):
        with pytest.raises(InvalidPath):
            await look(at(longer))
    await put(drive, path, b"again")
    await drive.delete(at(path))
    with pytest.raises(NotFound):
        await drive.stat(at(path))
