"""Generated tables of mounts over storage in memory: each request gets what a plain reading of the table says, and no more.

Mounts overlap, two connections lead to one bucket, some storage ignores case, and mount points differ in case only.
"""

import random
from collections.abc import Awaitable, Mapping
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest

from portico.accounts.connections import Connection
from portico.drive.connection_pool import ConnectionPool
from portico.drive.cursors import CursorSeal
from portico.model.entries import FOLDER_TYPE, Download, Entry, Page
from portico.model.errors import Forbidden, NotFound, PorticoError, is_a_folder, not_found
from portico.model.paths import Path, Place
from portico.model.reach import Mount, MountRule, Reach, folded, reach_of
from portico.model.rights import ALL_RIGHTS, Right
from portico.observability.metrics import Metrics
from portico.operations.actors.tree import Tree, Trees
from portico.operations.reachability import Explanation, Reachability
from portico.providers.contract.provider import Found, Provider, TreeWalk
from portico.runtime import clock
from portico.store.users import User

from .test_archives import Content

NAMES = ("a", "A", "b")
FOLDERS = [Path(segments) for depth in range(4) for segments in product(NAMES, repeat=depth)]
"""All paths at which anything is tried."""
BUCKETS = {"one": ("x", "", False), "again": ("x", "a", False), "other": ("y", "", False), "caseless": ("z", "", True)}
"""Connections: the bucket, the prefix, and whether it ignores case."""


class Memory(Provider):
    """Every folder has a file `f`, which says where it is."""

    kind = "memory"
    max_page_size = 100
    max_file_size = 1000

    def __init__(self, bucket: str, *, ignores_case: bool) -> None:
        self.identity = bucket
        self._caseless = ignores_case

    async def ignores_case(self) -> bool:
        return self._caseless

    def _names(self, folder: Path) -> list[str]:
        if len(folder.segments) > 4 or "f" in folder.segments:
            raise not_found(folder.name)
        names = ("a", "b") if self._caseless else NAMES
        return [*(names if len(folder.segments) < 4 else ()), "f"]

    def _entry(self, path: Path) -> Entry:
        if path.name.casefold() == "f":
            return Entry("f", False, 1, etag="e")
        return Entry(path.name, True, content_type=FOLDER_TYPE)

    async def list_page(self, folder: Path, size: int, token: str | None, *, file_first: bool = False) -> Page:
        names = sorted(self._names(folder))
        start = int(token or 0)
        rest = str(start + size) if len(names) > start + size else None
        return Page([self._entry(folder.child(name)) for name in names[start : start + size]], rest)

    def walk(self, folder: Path, token: str | None = None) -> TreeWalk:
        return _Walk(self, folder, token)

    async def stat(self, path: Path) -> Entry:
        self._names(path.parent)
        return self._entry(path)

    async def read(self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None) -> Download:
        if (await self.stat(path)).is_folder:
            raise is_a_folder(path.name)
        shown = str(path).casefold() if self._caseless else str(path)
        return Download(Entry(f"{self.identity}:{shown}", False, 1), 0, 1, Content())

    async def _never(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("nothing is written")

    write = begin_upload = resume_upload = check_ancestors = make_folder = delete = copy = move = _never


class _Walk(TreeWalk):
    def __init__(self, memory: Memory, folder: Path, token: str | None) -> None:
        self._found = list(self._below(memory, folder, Path()))
        self._at = int(token or 0)

    def _below(self, memory: Memory, folder: Path, relative: Path) -> Any:
        for name in memory._names(folder):
            entry = memory._entry(folder.child(name))
            yield relative.child(name), entry
            if entry.is_folder:
                yield from self._below(memory, folder.child(name), relative.child(name))

    async def page(self, size: int) -> list[Found]:
        page = self._found[self._at : self._at + size]
        self._at += len(page)
        return page

    @property
    def token(self) -> str | None:
        return str(self._at) if self._at < len(self._found) else None


class Connections:
    async def get(self, name: str) -> Connection:
        bucket, prefix, _ = BUCKETS[name]
        return Connection(name, "memory", {"bucket": bucket, "prefix": prefix}, {}, 1, "bound")


def generated_rules(chance: random.Random) -> list[MountRule]:
    rules: dict[Path, MountRule] = {}
    for _ in range(chance.randrange(6)):
        path = Path() if chance.random() < 0.3 else chance.choice(FOLDERS[:13])
        folder = str(chance.choice(FOLDERS[:13]))
        rights = frozenset(chance.sample(sorted(ALL_RIGHTS), chance.randrange(len(ALL_RIGHTS) + 1)))
        if chance.random() < 0.5:
            rights |= {Right.LIST, Right.DOWNLOAD}
        rules[path] = MountRule(path, chance.choice(sorted(BUCKETS)), folder, rights)
    return list(rules.values())


class Plain:
    """What a table gives, read as slowly and plainly as can be."""

    def __init__(self, own: list[MountRule], groups: list[tuple[str, list[MountRule]]]) -> None:
        self.mounts: dict[tuple[str, ...], MountRule] = {}
        for rules in reversed([own, *(rules for _, rules in groups)]):
            self.mounts |= {rule.path.segments: rule for rule in rules}

    def spelled(self, path: Path) -> tuple[str, ...]:
        """Another spelling of a mount point, or else of what leads to one, where the storage ignores case."""
        segments = path.segments
        while True:
            depth = next((depth for depth in range(len(segments), -1, -1) if segments[:depth] in self.mounts), None)
            if depth is None or not BUCKETS[self.mounts[segments[:depth]].connection][2]:
                return segments
            inner = [point for point in sorted(self.mounts) if len(point) > depth and point[:depth] == segments[:depth]]
            leads = [point[:length] for point in inner for length in range(depth + 1, len(point))]
            for spellings in (inner, leads):
                like = [other for other in spellings if _caseless(other) == _caseless(segments[: len(other)])]
                longest = [other for other in like if len(other) == max(map(len, like))]
                if longest:
                    break
            if not longest or segments[: len(longest[0])] in longest:
                return segments
            segments = longest[0] + segments[len(longest[0]) :]

    def outer(self, path: tuple[str, ...]) -> MountRule | None:
        for depth in range(len(path), -1, -1):
            if path[:depth] in self.mounts:
                rule = self.mounts[path[:depth]]
                return rule if rule.rights or [*self.mounts] == [()] else None
        return None

    def shown(self, path: tuple[str, ...]) -> set[str]:
        depth = len(path)
        return {
            point[depth]
            for point, rule in self.mounts.items()
            if len(point) > depth and point[:depth] == path and rule.rights
        }

    def key(self, path: Path) -> str | None:
        """The content of the file at a path; None if there is none, an empty text without the right."""
        spelled = self.spelled(path)
        if (rule := self.outer(spelled)) is None:
            return None
        if Right.DOWNLOAD not in rule.rights:
            return ""
        bucket, prefix, caseless = BUCKETS[rule.connection]
        place = Path.parse(prefix).segments + Path.parse(rule.folder).segments + spelled[len(rule.path.segments) :]
        if len(place) > 5:
            return None
        text = str(Path(place))
        return f"{bucket}:{text.casefold() if caseless else text}"


def _caseless(segments: tuple[str, ...]) -> list[str]:
    return [name.casefold() for name in segments]


def tree_of(reach: Reach, pool: ConnectionPool) -> Tree:
    now = clock.to_datetime(0)
    user = User(1, "anna", reach, disabled=False, created_at=now, password_changed_at=now)
    context = SimpleNamespace(connection=None, slot=SimpleNamespace(release=lambda: None), key=None)
    actor = SimpleNamespace(
        user=user, context=context, guest=None, only=None, share=(1,), right_missing="{}",
        require_scope=lambda _: None, require_unrestricted=lambda: None,
    )  # fmt: skip
    return Tree(cast("Trees", SimpleNamespace(pool=pool)), cast("Any", actor))


async def outcome(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except PorticoError as error:
        return type(error)


async def listed(tree: Tree, folder: Path, size: int) -> set[tuple[str, bool]] | type:
    drive, folder = await tree.at(folder)
    found: list[tuple[str, bool]] = []
    token = None
    try:
        while True:
            page = await drive.list_page(folder, size, token)
            found += [(entry.name, entry.is_folder) for entry in page.entries]
            if (token := page.token) is None:
                assert len(found) == len(set(found)), "no entry twice"
                return set(found)
    except (NotFound, Forbidden) as error:
        return type(error)


async def walked(tree: Tree, folder: Path, size: int) -> set[Path]:
    drive, folder = await tree.at(folder)
    found: set[Path] = set()
    cursor = None
    while True:
        walk = tree.walk(drive, folder, cursor)
        page = await walk.page(size)
        for path, _ in page:
            assert path not in found
            found.add(path)
        if walk.ended:
            return found
        cursor = walk.cursor


def agrees(explained: Explanation, answer: Any) -> bool:
    """Whether an explanation says what a download was answered with."""
    rights = explained.mount.rights if explained.mount else frozenset()
    if answer is NotFound:
        return not rights or explained.entry is None
    if answer is Forbidden:
        return explained.mount is not None and Right.DOWNLOAD not in rights
    assert explained.place
    bucket, prefix, caseless = BUCKETS[explained.place.connection]
    text = str(explained.place.path.under(Path.parse(prefix)))
    return Right.DOWNLOAD in rights and answer.entry.name == f"{bucket}:{text.casefold() if caseless else text}"


async def check(seed: int, pool: ConnectionPool) -> None:
    chance = random.Random(seed)
    own = generated_rules(chance)
    groups = [(name, generated_rules(chance)) for name in chance.sample(["g", "h"], chance.randrange(3))]
    reach, plain = reach_of("anna", own, groups), Plain(own, groups)
    tree = tree_of(reach, pool)
    for folder in FOLDERS:
        file = folder.child("f")
        drive, path = await tree.at(file)
        answer = await outcome(drive.read(path))
        wanted = plain.key(file)
        got = answer.entry.name if isinstance(answer, Download) else answer
        assert got == {None: NotFound, "": Forbidden}.get(wanted, wanted), (seed, str(file))
        explained = await Reachability(pool).explain(tree.actor.user, file)
        assert agrees(explained, answer), (seed, str(file), "it is explained otherwise")
        spelled = plain.spelled(folder)
        rule, shown = plain.outer(spelled), plain.shown(spelled)
        names = await listed(tree, folder, chance.randrange(1, 6))
        if rule is None:
            assert names == ({(name, True) for name in shown} if shown or folder.is_root else NotFound), (
                seed,
                str(folder),
            )
        elif Right.LIST not in rule.rights:
            assert names is Forbidden, (seed, str(folder))
        elif isinstance(names, set):
            assert {(name, True) for name in shown} <= names, (seed, str(folder))
            for name, _ in names - {(name, True) for name in shown}:
                inner = plain.spelled(Path(spelled).child(name))
                assert inner not in plain.mounts, (seed, str(folder), name, "a mount hides it")
                assert plain.outer(inner) is rule, (seed, str(folder), name)
    await check_walk(tree, reach, plain, seed, chance)


async def check_walk(tree: Tree, reach: Reach, plain: Plain, seed: int, chance: random.Random) -> None:
    """Whatever a walk finds is where a listing has it, and the other way round."""
    top = chance.choice(FOLDERS[:4])
    if (mount := reach.at(Path(plain.spelled(top)))) and Right.LIST not in mount.rights:
        return
    found: Any = await outcome(walked(tree, top, chance.randrange(1, 40)))
    expected: set[Path] = set()
    start = Path(plain.spelled(top))
    inner = [mount.path for mount in reach.below(start) if Right.LIST in mount.rights]
    expected |= set(inner)
    waiting = [start, *inner]
    while waiting:
        names = await listed(tree, waiting[-1], 100)
        folder = waiting.pop()
        if not isinstance(names, set):
            assert folder != start or found is names, seed
            continue
        for name, is_folder in names:
            path = Path(plain.spelled(folder.child(name)))
            if is_folder and path not in expected:
                waiting.append(path)
            expected.add(path)
    # Folders on the way to a mount point need not be in any storage, and a mount may give no right to list it.
    if isinstance(found, type):
        return
    unfound = {path for path in expected - found if reach.names_in(path) or reach.is_point(path)}
    # Where case is ignored, one folder may lead to mount points in two spellings; a walk finds what is stored there once.
    alike = {str(path).casefold() for path in found}
    unfound |= {path for path in expected - found if str(path).casefold() in alike}
    # Of the spellings, a listing shows one.
    alike = {str(path).casefold() for path in expected}
    unlisted = {path for path in found - expected if reach.names_in(path) and str(path).casefold() in alike}
    assert found - unlisted <= expected <= found | unfound, (seed, str(top))


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> ConnectionPool:
    def opened(_: str, options: Mapping[str, str], *__: Any) -> Provider:
        caseless = options["bucket"] == "z"
        return Memory(options["bucket"], ignores_case=caseless)

    monkeypatch.setattr("portico.drive.connection_pool.open_provider", opened)
    return ConnectionPool(cast("Any", Connections()), CursorSeal(b"k" * 32), Metrics(), cast("Any", None))


def test_folding_is_the_same_for_both() -> None:
    assert folded("A") == folded("a") != folded("b")
    assert Mount(Path(), Place("one", Path()), frozenset()).place_of(Path(("a",))) == Place("one", Path(("a",)))


async def test_a_request_gets_what_the_table_says(pool: ConnectionPool) -> None:
    for seed in range(150):
        await check(seed, pool)


@pytest.mark.thorough
@pytest.mark.timeout(3600)
async def test_a_request_gets_what_ten_thousand_tables_say(pool: ConnectionPool) -> None:
    for seed in range(150, 10_000):
        await check(seed, pool)
