"""A user whose root is `/al` never gets at `/alice`, whatever the path, cursor or name."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portico.drive.cursors import CursorSeal
from portico.drive.drive import OnConflict
from portico.model.errors import InvalidCursor, InvalidPath, NotFound, PorticoError
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS
from portico.providers.contract.provider import Provider

from ..recorded_drive import RecordedDrive
from .actions import at, content, names, put, tree, walk
from .harness import Harness

CANARY = b"canary in the sibling"
CANARIES = ["alice/canary", "alice/secret/canary", "alice.txt", "alicecanary", "canary", "secret/canary"]
OWN = b"of al"

plain = [b"alice", b"al", b"ice", b"..alice", b"canary", b"secret", b"own", b"sub", b"~", b"C:", b"%20", b"*"]
hostile = [
    *(b"/", b"//", b".", b"..", b"../", b"/../", b"%2e%2e", b"%2E.", b"%2f", b"..%2f", b"..%5c", b"\\"),
    *(b"%c0%ae%c0%ae", b"%252e%252e", b"%ef%bc%8e%ef%bc%8e", b"%00", b"%0d%0a", b"%ff"),
]
ways = st.lists(st.sampled_from(plain), max_size=3).map(b"/".join) | st.lists(
    st.sampled_from(plain + hostile) | st.binary(max_size=4), max_size=6
).map(b"".join)

any_names = st.text(max_size=6) | st.sampled_from(["..", "../alice", "/alice/canary", "alice", "canary"])

untimed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def paths(draw: st.DrawFn) -> Path | None:
    """What a request makes of a way and perhaps a name; None if it is refused."""
    try:
        path = Path.from_request(draw(ways))
        return path if draw(st.booleans()) else path.child(draw(any_names))
    except InvalidPath:
        return None


class Spy:
    """A provider that holds nothing and remembers where it was asked."""

    kind = "spy"
    identity = "spy"
    max_page_size = 10
    reports_arrival = False

    def __init__(self) -> None:
        self.places: list[Path] = []

    def transferring(self, *places: Path, **_: object) -> AbstractAsyncContextManager[None]:
        self.places += places
        return nullcontext()

    def __getattr__(self, method: str) -> Callable[..., Awaitable[None]]:
        async def called(*arguments: object, **_: object) -> None:
            self.places += [argument for argument in arguments if isinstance(argument, Path)]
            raise NotFound(f"There is nothing to {method}.")

        return called


@pytest.fixture
async def whole(provider: Provider, seal: CursorSeal) -> RecordedDrive:
    """All of the storage, as only the administrator sees it."""
    drive = RecordedDrive(provider, Path(), DEFAULT_RIGHTS, seal)
    for path in CANARIES:
        await put(drive, path, CANARY)
    return drive


@pytest.fixture
async def al(whole: RecordedDrive, provider: Provider, seal: CursorSeal) -> RecordedDrive:
    drive = RecordedDrive(provider, at("al"), DEFAULT_RIGHTS, seal)
    await refill(drive)
    return drive


async def refill(drive: RecordedDrive) -> None:
    """Leave nothing there but al's own, whatever was tried before."""
    page = await drive.list_page(Path(), 1000)
    for entry in page.entries:
        await drive.delete(at(entry.name), recursive=True)
    for path in ("own", "sub/own", "canary"):
        await put(drive, path, OWN)


async def looked_at(drive: RecordedDrive, path: Path) -> AsyncGenerator[bytes]:
    """Whatever can be seen at `path`."""
    try:
        for page in await walk(drive, str(path), 1):
            for entry in page:
                if not entry.is_folder:
                    yield await content(drive, path.child(entry.name))
    except PorticoError:
        pass
    try:
        download = await drive.read(path)
    except PorticoError:
        return
    async with aclosing(download.chunks) as chunks:
        yield b"".join([chunk async for chunk in chunks])


async def attempt(drive: RecordedDrive, path: Path) -> None:
    """Try every change at `path`."""
    for change in (
        lambda: drive.copy(path, at("copied")),
        lambda: drive.copy(at("own"), path),
        lambda: drive.copy(at("sub"), path.child("alice"), OnConflict.RENAME),
        lambda: drive.make_folder(path),
        lambda: drive.move(path, at("sub/moved")),
        lambda: drive.move(at("sub"), path),
        lambda: put(drive, path, OWN),
        lambda: put(drive, path, OWN, OnConflict.RENAME),
        lambda: drive.delete(path, recursive=True),
    ):
        try:
            await change()
        except PorticoError:
            continue


@untimed
@given(path=paths())
async def test_a_provider_is_only_asked_below_the_root(seal: CursorSeal, path: Path | None) -> None:
    if path is None:
        return
    spy = Spy()
    drive = RecordedDrive(cast("Provider", spy), at("al"), DEFAULT_RIGHTS, seal)
    async with aclosing(looked_at(drive, path)) as seen:
        assert [data async for data in seen] == []
    await attempt(drive, path)
    assert spy.places
    assert [place for place in spy.places if place.segments[:1] != ("al",)] == []


@settings(untimed, max_examples=3)
@given(data=st.data())
async def test_no_path_leads_out(
    harness: Harness, whole: RecordedDrive, al: RecordedDrive, data: st.DataObject
) -> None:
    for path in data.draw(st.lists(paths(), min_size=harness.effort, max_size=harness.effort)):
        if path is not None:
            async with aclosing(looked_at(al, path)) as seen:
                assert [content async for content in seen if content != OWN] == []
            await attempt(al, path)
    everything = await tree(whole)
    canaries = {path for path, content in everything.items() if content == CANARY}
    assert canaries == {f"/{path}" for path in CANARIES}
    assert {at(path).segments[0] for path in everything} == {at(path).segments[0] for path in CANARIES} | {"al"}
    await refill(al)


@pytest.fixture
async def cursors(whole: RecordedDrive, al: RecordedDrive) -> tuple[str, str]:
    """One of al's root and one of alice's."""
    pages = [await al.list_page(Path(), 1), await whole.list_page(at("alice"), 1)]
    own, others = (page.token for page in pages)
    assert own is not None
    assert others is not None
    return own, others


@pytest.mark.drive_alone
@untimed
@given(data=st.data())
async def test_no_cursor_leads_out(al: RecordedDrive, cursors: tuple[str, str], data: st.DataObject) -> None:
    own, others = cursors
    halves = [own[:-22], own[-22:], others[:-22], others[-22:], "/alice/", "../alice", "alice\0"]
    cursor = data.draw(st.lists(st.sampled_from(halves) | st.text(max_size=3), max_size=4).map("".join))
    try:
        page = await al.list_page(Path(), 10, cursor)
    except InvalidCursor:
        return
    assert cursor == own
    assert {entry.name for entry in page.entries} <= {"own", "sub", "canary"}


async def test_a_root_is_no_prefix_of_a_name(whole: RecordedDrive, al: RecordedDrive) -> None:
    assert await names(al) == ["sub", "canary", "own"]
    assert await names(whole) == ["al", "alice", "secret", "alice.txt", "alicecanary", "canary"]
    for path in ("ice", "ice/canary", "ice.txt", "alice", "alice/canary"):
        with pytest.raises(NotFound):
            await al.stat(at(path))
        with pytest.raises(NotFound):
            await al.read(at(path))
        with pytest.raises(NotFound):
            await al.delete(at(path), recursive=True)


async def test_an_empty_root_hides_its_siblings(whole: RecordedDrive, provider: Provider, seal: CursorSeal) -> None:
    before = await tree(whole)
    for root in ("a", "ali", "alice/can", "alice/canary2"):
        drive = RecordedDrive(provider, at(root), DEFAULT_RIGHTS, seal)
        assert await names(drive) == []
        with pytest.raises(NotFound):
            await drive.delete(at("ce"), recursive=True)
    assert await tree(whole) == before
