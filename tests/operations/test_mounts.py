"""One tree over several storages: what each operation does at mount points, between mounts, and where there is none."""

import asyncio
import inspect
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, aclosing
from types import FrameType
from typing import Any

import pytest

from portico.accounts.api_keys import KeyScope
from portico.accounts.mounts import Mounts, owner_of
from portico.drive.drive import Drive, OnConflict
from portico.drive.instrumented import InstrumentedProvider
from portico.model.entries import Download, Entry
from portico.model.errors import (
    AlreadyExists,
    Changed,
    Forbidden,
    InvalidCursor,
    IsAFolder,
    NotFound,
    NotPossible,
    NotSignedIn,
    PorticoError,
    ProviderFailed,
)
from portico.model.reach import MountRule
from portico.model.rights import ALL_RIGHTS, OVERWRITE, Right, parse_rights
from portico.operations.actors.auditing import ChangeResult
from portico.operations.actors.request_context import RequestContext
from portico.operations.files.digests import WantedDigest, sha256_of
from portico.operations.files.search import Criteria
from portico.operations.jobs import Job
from portico.operations.operations import Operations
from portico.operations.sharing.links import LinkKind, LinkOptions
from portico.operations.uploads.access import NewUpload
from portico.providers.contract.registry import SECRET_OPTIONS
from portico.store.database import Database

from ..conformance.harness import PROVIDERS
from .test_scope import LARGE, Acting, guest_of, signed_in, ticket_for
from .test_second_front_end import ADDRESS, Installation, at, chunks, installation

__all__ = ["installation"]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portico.operations.actors.actor.TRUSTED_SECONDS", -1.0)
    monkeypatch.setattr("portico.operations.actors.actor.WATCH_SECONDS", 0.01)


class Company:
    """A user `web`, who has mounts."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.files = installation.files.parent
        self.mounts = Mounts(installation.users._database)

    async def mount(self, path: str, place: str, rights: str = "list download upload overwrite share") -> None:
        connection, slash, folder = place.partition("/")
        rule = MountRule(at(path), connection, slash + folder, parse_rights(rights))
        await self.mounts.add(owner_of("web"), rule)
        self.installation.forget()

    async def unmount(self, path: str) -> None:
        await self.mounts.remove(owner_of("web"), at(path))
        self.installation.forget()

    def put(self, path: str, content: bytes = b"content") -> None:
        """In the folder of the connection `local`."""
        (self.files / path).parent.mkdir(parents=True, exist_ok=True)
        (self.files / path).write_bytes(content)

    async def user(self) -> Acting:
        return await signed_in(self.installation)


@pytest.fixture
async def company(installation: Installation) -> Company:
    """The root is /web of `local`. There is another folder, the connection `archive`."""
    (installation.files.parent.parent / "archive").mkdir()
    folder = {"folder": str(installation.files.parent.parent / "archive")}
    await installation.connections.add("archive", "local", folder, {})
    return Company(installation)


async def names(operations: Operations, folder: str, size: int = 100) -> list[str]:
    """All pages of a listing, with a slash after folders."""
    found, token = [], None
    while True:
        page = await operations.files.list(at(folder), size, token)
        found += [f"{entry.name}/" if entry.is_folder else entry.name for entry in page.entries]
        if (token := page.token) is None:
            return found


async def found_by(operations: Operations, folder: str, size: int = 100, name: str = "") -> list[str]:
    found, cursor = [], None
    while True:
        page = await operations.files.search(at(folder), Criteria(name=name), size, cursor)
        found += [str(path) for path, _ in page.found]
        if (cursor := page.cursor) is None:
            return sorted(found)


async def read(operations: Operations, path: str) -> bytes:
    download = await operations.files.read(at(path))
    return b"".join([chunk async for chunk in download.chunks])


async def test_mount_points_are_listed_where_they_are(company: Company) -> None:
    for path in ("web/b", "web/z/x", "web/hr/hidden", "web/lead/file", "hr/plan", "web/deep/stored"):
        company.put(path)
    await company.mount("/hr", "local/hr")
    await company.mount("/archive", "archive/")
    await company.mount("/deep/er/point", "local/hr")
    await company.mount("/lead", "archive/none", "")
    async with (await company.user()).request() as operations:
        assert await names(operations, "/") == ["archive/", "deep/", "hr/", "z/", "b"]
        for size in (1, 2, 3):
            assert sorted(await names(operations, "/", size)) == ["archive/", "b", "deep/", "hr/", "z/"]
        assert await names(operations, "/hr") == ["plan"]
        assert sorted(await names(operations, "/deep")) == ["er/", "stored"]
        assert await names(operations, "/deep/er") == ["point/"]
        assert await names(operations, "/deep/er/point") == ["plan"]
        assert await names(operations, "/archive") == []
        for path in ("/hr", "/deep/er", "/deep/er/point", "/archive"):
            entry = await operations.files.stat(at(path))
            assert (entry.name, entry.is_folder) == (at(path).name, True)
        everything = ["/archive", "/b", "/deep", "/deep/er", "/deep/er/point", "/deep/er/point/plan", "/deep/stored"]
        everything += ["/hr", "/hr/plan", "/z", "/z/x"]
        for size in (1, 2, 100):
            assert await found_by(operations, "/", size) == everything
        # What a mount hides is not there, and what hides it cannot be read.
        for path in ("/lead", "/lead/file", "/hr/hidden"):
            with pytest.raises(NotFound):
                await operations.files.stat(at(path))
            with pytest.raises(NotFound):
                await read(operations, path)
    assert await (await company.user()).names(at("/")) == [
        *("archive/", "b", "deep/", "deep/er/", "deep/er/point/", "deep/er/point/plan", "deep/stored"),
        *("hr/", "hr/plan", "z/", "z/x"),
    ]


async def test_without_a_mount_at_the_root_it_is_virtual(company: Company) -> None:
    await company.mount("/team/a", "local/a")
    await company.mount("/team/b", "archive/", "list")
    await company.mount("/x", "archive/x", "")
    await company.unmount("/")
    company.put("a/file")
    async with (await company.user()).request() as operations:
        assert await names(operations, "/") == ["team/"]
        assert await names(operations, "/team", 1) == ["a/", "b/"]
        assert await found_by(operations, "/") == ["/team", "/team/a", "/team/a/file", "/team/b"]
        assert (await operations.files.stat(at("/team"))).is_folder
        with pytest.raises(IsAFolder):
            await operations.files.stat_for_download(at("/team"))
        with pytest.raises(NotFound):
            await operations.files.list(at("/other"), 10)
        with pytest.raises(NotFound):
            await operations.files.read(at("/other/x"))
        for path in ("/new", "/team/new", "/other/new"):
            with pytest.raises(Forbidden, match="/team/a, /team/b"):
                await operations.files.store(at(path), chunks(b"x"))
            with pytest.raises(Forbidden, match="/team/a"):
                await operations.files.make_folder(at(path))
            with pytest.raises(Forbidden, match="/team/a"):
                await operations.uploads.create(NewUpload(at(path), 5))
        with pytest.raises(Forbidden, match="/team/a"):
            await operations.files.copy(at("/team/a/file"), at("/team/file"))
        with pytest.raises(NotPossible, match="/team/a"):
            await operations.files.delete(at("/team"), recursive=True)
    assert await (await company.user()).names(at("/")) == ["team/", "team/a/", "team/a/file"]
    assert not [*company.files.glob("**/new")]


@pytest.mark.parametrize("path", ["/hr", "/deep", "/deep/er", "/lead"])
async def test_what_contains_a_mount_point_stays_as_it_is(company: Company, path: str) -> None:
    for file in ("web/deep/stored", "web/other", "hr/plan"):
        company.put(file)
    await company.mount("/hr", "local/hr")
    await company.mount("/deep/er/point", "archive/")
    await company.mount("/lead/in", "archive/none", "")
    async with (await company.user()).request() as operations:
        for change in (
            operations.files.delete(at(path), recursive=True),
            operations.files.move(at(path), at("/moved")),
            operations.files.copy(at(path), at("/copied")),
            operations.files.copy(at("/other"), at(path), OnConflict.REPLACE),
        ):
            with pytest.raises(NotPossible) as refused:
                await change
            assert "none" not in str(refused.value)
        if path != "/lead":
            with pytest.raises(IsAFolder):
                await operations.files.store(at(path), chunks(b"x"))
            with pytest.raises(IsAFolder):
                await read(operations, path)
    assert (company.files / "web/deep/stored").read_bytes() == b"content"


async def test_trash_is_one_for_all_mounts(company: Company) -> None:
    await company.mount("/hr", "local/hr", "list delete upload replace")
    await company.mount("/archive", "archive/", "list upload")
    await company.mount("/same", "local/web/in")
    for path in ("web/a", "web/in/b", "hr/c"):
        company.put(path)
    async with (await company.user()).request() as operations:
        for path in ("/a", "/in/b", "/hr/c"):
            await operations.files.delete(at(path))
        seen, cursor = [], None
        while True:
            page = await operations.trash.list(1, cursor)
            seen += [str(item.path) for item in page.items]
            if (cursor := page.cursor) is None:
                break
        assert seen == ["/hr/c", "/same/b", "/a"], "the newest first, each where it lies deepest"
        items = (await operations.trash.list(10)).items
        assert (await operations.trash.restore(items[0].id)).path == at("/hr/c")
        assert (await operations.trash.restore(items[1].id)).path == at("/same/b")
        first = await operations.trash.list(1)
        await operations.files.delete(at("/in/b"))
        first = await operations.trash.list(1)
    await company.unmount("/hr")
    async with (await company.user()).request() as operations:
        with pytest.raises(InvalidCursor):
            await operations.trash.list(1, first.cursor)
        assert await operations.trash.empty() == 2


async def test_places_are_compared_and_not_paths(company: Company) -> None:
    """Two mounts, and two connections, lead to one folder."""
    folder = {"folder": str(company.files / "web")}
    await company.installation.connections.add("again", "local", folder, {})
    await company.mount("/mirror", "local/web")
    await company.mount("/again", "again/")
    company.put("web/a")
    company.put("web/in/x")
    async with (await company.user()).request() as operations:
        for mirror in ("/mirror", "/again"):
            for change in (operations.files.move, operations.files.copy):
                for source, target in (("/a", f"{mirror}/a"), ("/in", f"{mirror}/in/y"), (f"{mirror}/in", "/in/y")):
                    with pytest.raises(NotPossible):
                        await change(at(source), at(target), OnConflict.REPLACE)
            await operations.files.move(at("/a"), at(f"{mirror}/b"))
            assert await read(operations, "/b") == b"content"
            await operations.files.move(at(f"{mirror}/b"), at("/a"))
    assert (company.files / "web/a").read_bytes() == b"content"


async def test_rights_are_those_of_the_mount(company: Company) -> None:
    """Each operation in a mount that lacks one of the rights, beside a root that gives all."""
    needs: dict[str, set[Right]] = {
        "list": {Right.LIST},
        "stat": {Right.LIST},
        "read": {Right.DOWNLOAD},
        "zip": {Right.LIST, Right.DOWNLOAD},
        "store": {Right.UPLOAD},
        "replace": {Right.UPLOAD, Right.REPLACE},
        "mkdir": {Right.UPLOAD},
        "delete": {Right.DELETE},
        "rename": {Right.UPLOAD, *OVERWRITE},
        "copy in": {Right.UPLOAD},
        "copy out": {Right.DOWNLOAD},
        "move in": {Right.UPLOAD},
        "move out": {Right.DOWNLOAD, Right.DELETE},
        "tus": {Right.UPLOAD},
        "ticket": {Right.DOWNLOAD},
        "share": {Right.SHARE, Right.LIST, Right.DOWNLOAD},
    }

    async def attempt(operations: Operations, what: str) -> Any:
        files = operations.files
        match what:
            case "list":
                return await files.list(at("/m"), 10)
            case "stat":
                return await files.stat(at("/m/a"))
            case "read":
                return await read(operations, "/m/a")
            case "zip":
                return await (await files.archive(at("/m"))).close()
            case "store":
                return await files.store(at("/m/new"), chunks(b"x"), None, OnConflict.RENAME)
            case "replace":
                return await files.store(at("/m/a"), chunks(b"x"), None, OnConflict.REPLACE)
            case "mkdir":
                return await files.make_folder(at("/m/made"))
            case "delete":
                return await files.delete(at("/m/d"))
            case "rename":
                return await files.move(at("/m/b"), at("/m/bb"))
            case "copy in":
                return await files.copy(at("/own"), at("/m/own"), OnConflict.RENAME)
            case "copy out":
                return await files.copy(at("/m/a"), at("/mine"), OnConflict.RENAME)
            case "move in":
                return await files.move(at("/own2"), at("/m/own2"))
            case "move out":
                return await files.move(at("/m/c"), at("/c"), OnConflict.RENAME)
            case "tus":
                return await operations.uploads.create(NewUpload(at("/m/tus"), 5))
            case "ticket":
                return await files.ticket(at("/m/a"))
            case "share":
                return await operations.shares.add(at("/m"), LinkKind.DOWNLOAD, LinkOptions())

    for place in ("archive/m", "local/m"):
        for lacking in (None, *sorted(ALL_RIGHTS)):
            for file in ("a", "b", "c", "d"):
                folder = company.files if place.startswith("local") else company.files.parent / "archive"
                (folder / "m").mkdir(parents=True, exist_ok=True)
                (folder / "m" / file).write_bytes(b"content")
            for file in ("own", "own2"):
                company.put(f"web/{file}")
            rights = " ".join(ALL_RIGHTS - {lacking})
            await company.mount("/m", place, rights)
            wrong = []
            async with (await company.user()).request() as operations:
                for what, needed in needs.items():
                    try:
                        await attempt(operations, what)
                        allowed = True
                    except Forbidden:
                        allowed = False
                    if allowed != (lacking not in needed):
                        wrong.append(what)
            assert not wrong, (place, lacking)
            await company.unmount("/m")
            for left in ("bb", "own2", "made"):
                target = folder / "m" / left
                if target.is_dir():
                    target.rmdir()
                else:
                    target.unlink(missing_ok=True)


async def test_a_key_and_a_guest_have_a_part_of_the_tree(company: Company) -> None:
    for path in ("web/team/a", "hr/plan", "web/team/closed/x"):
        company.put(path)
    await company.installation.users.change("web", rights=ALL_RIGHTS)
    await company.mount("/team/hr", "local/hr")
    await company.mount("/team/archive", "archive/", "list download")
    company.put("../archive/old")
    user = await company.user()
    async with user.request() as operations:
        key = await operations.account.add_key(KeyScope("key", parse_rights("list"), at("/team")))
        linked = await operations.shares.add(at("/team"), LinkKind.DOWNLOAD, LinkOptions())
    by_key = Acting(company.installation, lambda context: user.gateway.authentication.with_token(context, key.text))
    async with by_key.request() as operations:
        assert await found_by(operations, "/") == [
            "/a",
            "/archive",
            "/archive/old",
            "/closed",
            "/closed/x",
            "/hr",
            "/hr/plan",
        ]
        with pytest.raises(Forbidden):
            await read(operations, "/hr/plan")
    guest = await guest_of(company.installation, "/team")
    async with guest.request() as operations:
        assert await found_by(operations, "/") == ["/a", "/closed", "/closed/x", "/hr", "/hr/plan"]
        assert await read(operations, "/hr/plan") == b"content"
        for path in ("/archive", "/archive/old"):
            with pytest.raises(NotFound):
                await operations.files.stat(at(path))
    assert linked.path == at("/team")
    assert await guest.names(at("/")) == ["a", "closed/", "closed/x", "hr/", "hr/plan"]
    # A link follows its folder into another mount, and ends where the owner may not share.
    async with user.request() as operations:
        await operations.files.move(at("/team/closed"), at("/team/hr/closed"))
    inner = await guest_of(company.installation, "/team/hr/closed")
    async with user.request() as operations:
        await operations.files.move(at("/team/hr/closed"), at("/moved"))
        paths = [str(link.path) for link in await operations.shares.list()]
    assert "/moved" in paths
    company.installation.forget()
    async with inner.request() as operations:
        assert await read(operations, "/x") == b"content"


KINDS = ("s3", "azure-blob", "azure-files", "gcs")


@pytest.fixture
async def everywhere(company: Company, request: pytest.FixtureRequest) -> AsyncIterator[Company]:
    """A tree with one mount on each kind of storage, by its name, in a local root."""
    async with AsyncExitStack() as stack:
        for kind in KINDS:
            harness = await stack.enter_async_context(PROVIDERS[kind](request))
            _, given = harness.open.args  # type: ignore[attr-defined]
            options = {name: value for name, value in given.items() if name not in SECRET_OPTIONS}
            secrets = {name: value for name, value in given.items() if name in SECRET_OPTIONS}
            await company.installation.connections.add(kind, kind, options, secrets)
            await company.mount(f"/{kind}", f"{kind}/in")
        yield company


async def tree_of(operations: Operations, folder: str) -> dict[str, bytes]:
    """The files below a folder, by their paths in it, and its folders without content."""
    found = {}
    for path in await found_by(operations, folder):
        entry = await operations.files.stat(at(path))
        found[path.removeprefix(folder)] = b"" if entry.is_folder else await read(operations, path)
    return found


async def test_every_operation_on_every_kind_of_storage(everywhere: Company) -> None:
    user = await everywhere.user()
    for kind in KINDS:
        async with user.request() as operations:
            files = operations.files
            await files.store(at(f"/{kind}/a.txt"), chunks(b"01234", b"56789"))
            await files.make_folder(at(f"/{kind}/new"))
            assert await names(operations, f"/{kind}") == ["new/", "a.txt"]
            download = await files.read(at(f"/{kind}/a.txt"), 2, 4)
            assert b"".join([chunk async for chunk in download.chunks]) == b"23"
            assert (await files.copy(at(f"/{kind}/a.txt"), at(f"/{kind}/new/b"))).path == at(f"/{kind}/new/b")
            assert (await files.move(at(f"/{kind}/new/b"), at(f"/{kind}/new/c"))).path == at(f"/{kind}/new/c")
            upload = await operations.uploads.create(NewUpload(at(f"/{kind}/tus"), 4))
            status = await operations.uploads.append(upload.id, 0, chunks(b"tust"))
            assert status.stored_at == at(f"/{kind}/tus")
            part = await operations.uploads.create_partial(4)
            assert (await operations.uploads.append(part.id, 0, chunks(b"part"))).offset == 4
            whole = await operations.concatenation.store(NewUpload(at(f"/{kind}/whole")), [part.id], WantedDigest(True))
            assert whole.entry
            assert await read(operations, f"/{kind}/whole") == b"part"
            await files.store(at(f"/{kind}/whole"), chunks(b"newer"), None, OnConflict.REPLACE)
            await files.delete(at(f"/{kind}/new"), recursive=True)
            items = (await operations.trash.list(10)).items
            assert [(str(item.path), item.reason) for item in items[:2]] == [
                (f"/{kind}/new", "deleted"),
                (f"/{kind}/whole", "replaced"),
            ]
            assert (await operations.trash.restore(items[0].id)).path == at(f"/{kind}/new")
        ticket = await ticket_for(user, f"/{kind}/a.txt", everywhere.installation, recursive=False)
        async with ticket.request() as operations:
            assert await read(operations, f"/{kind}/a.txt") == b"0123456789"
            with pytest.raises(Forbidden):
                await read(operations, f"/{kind}/whole")
    async with user.request() as operations:
        found = await found_by(operations, "/", 3, "[c]")
        assert found == [f"/{kind}/new/c" for kind in sorted(KINDS)]
    assert len(await user.names(at("/"))) == 6 * len(KINDS)


async def test_a_folder_moves_from_storage_to_storage(everywhere: Company) -> None:
    for number in range(4):
        everywhere.put(f"web/tree/deep{number % 2}/{number}", str(number).encode() * 100)
    everywhere.put("web/tree/empty/x/y", b"")
    user = await everywhere.user()
    async with user.request() as operations:
        expected = await tree_of(operations, "/tree")
        source = "/tree"
        for target in (*(f"/{kind}/tree" for kind in KINDS), "/back"):
            copied = (await operations.files.copy(at(source), at(f"{target} too"))).path
            assert copied == at(f"{target} too")
            assert (await operations.files.move(at(source), at(target))).path == at(target)
            assert await tree_of(operations, target) == await tree_of(operations, f"{target} too") == expected
            with pytest.raises(NotFound):
                await operations.files.stat(at(source))
            newest = (await operations.trash.list(1)).items[0]
            assert (str(newest.path), newest.reason) == (source, "deleted"), "the source can be brought back"
            source = target


async def test_what_exists_at_the_target_is_kept_or_replaced_as_asked(everywhere: Company) -> None:
    everywhere.put("web/a", b"new")
    everywhere.put("web/tree/a", b"new")
    user = await everywhere.user()
    async with user.request() as operations:
        files = operations.files
        await files.store(at("/s3/a"), chunks(b"old"))
        await files.store(at("/s3/tree/b"), chunks(b"old"))
        for source in ("/a", "/tree"):
            with pytest.raises(AlreadyExists):
                await files.move(at(source), at(f"/s3{source}"), OnConflict.FAIL)
        assert (await files.copy(at("/a"), at("/s3/a"), OnConflict.RENAME)).path == at("/s3/a (1)")
        with pytest.raises(AlreadyExists):
            await files.move(at("/tree"), at("/s3/a"), OnConflict.REPLACE)
        with pytest.raises(AlreadyExists):
            await files.move(at("/a"), at("/s3/tree"), OnConflict.REPLACE)
        result = await files.move(at("/a"), at("/s3/a"), OnConflict.REPLACE)
        assert await read(operations, "/s3/a") == b"new"
        assert len(result.trash_ids) == 1, "of what was replaced"
        await files.move(at("/tree"), at("/s3/tree"), OnConflict.REPLACE)
        assert await tree_of(operations, "/s3/tree") == {"/a": b"new", "/b": b"old"}


async def test_a_source_that_changes_while_it_is_copied_stays(
    everywhere: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere.put("web/tree/a", b"old")
    everywhere.put("web/b", b"old")

    async def changing(download: Download) -> bytes | None:
        everywhere.put("web/tree/new", b"new")
        everywhere.put("web/b", b"newer")
        return await sha256_of(download)

    monkeypatch.setattr("portico.operations.files.transfer.sha256_of", changing)
    async with (await everywhere.user()).request() as operations:
        for source in ("/tree", "/b"):
            with pytest.raises(Changed):
                await operations.files.move(at(source), at(f"/gcs{source}"))
        assert await tree_of(operations, "/tree") == {"/a": b"old", "/new": b"new"}
        assert await read(operations, "/b") == b"newer"


async def test_a_copy_that_is_damaged_on_its_way_is_noticed(
    everywhere: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere.put("web/a", b"content")

    async def other(download: Download) -> bytes | None:
        await download.chunks.aclose()
        return b"other"

    monkeypatch.setattr("portico.operations.files.transfer.sha256_of", other)
    async with (await everywhere.user()).request() as operations:
        with pytest.raises(ProviderFailed):
            await operations.files.move(at("/a"), at("/azure-blob/a"))
        assert await read(operations, "/a") == b"content"


async def test_case_makes_no_way_around_a_mount(company: Company, request: pytest.FixtureRequest) -> None:
    """On a storage that ignores case, another spelling of a mount point is that mount point."""
    async with PROVIDERS["azure-files"](request) as harness:
        _, given = harness.open.args  # type: ignore[attr-defined]
        share, connection_string = given["share"], given["connection-string"]
        await company.installation.connections.add(
            "share", "azure-files", {"share": share}, {"connection-string": connection_string}
        )
        await company.unmount("/")
        await company.mount("/", "share/")
        await company.mount("/hr", "local/hr", "list")
        await company.mount("/deep/Straße", "share/hr", "list upload")
        provider = harness.open()
        for stored in ("hr/plan", "Deep/STRASSE/x", "other"):
            await provider.write(at(stored), chunks(b"x"), "text/plain")
        company.put("hr/from-local")
        async with (await company.user()).request() as operations:
            assert await names(operations, "/") == ["deep/", "hr/", "other"]
            for spelling in ("/hr", "/HR", "/Hr"):
                assert await names(operations, spelling) == ["from-local"]
                for path in (f"{spelling}/plan", f"{spelling}/from-local"):
                    with pytest.raises(Forbidden):
                        await read(operations, path)
                with pytest.raises(PorticoError):
                    await operations.files.delete(at(spelling), recursive=True)
                with pytest.raises(PorticoError):
                    await operations.files.store(at(spelling), chunks(b"x"))
                with pytest.raises(PorticoError):
                    await operations.files.move(at("/other"), at(spelling), OnConflict.REPLACE)
            assert await names(operations, "/DEEP/strasse") == ["plan"]
            assert await found_by(operations, "/", 1, "x") == []
            with pytest.raises(NotPossible, match="/hr"):
                await operations.files.copy(at("/other"), at("/HR"), OnConflict.RENAME)
            async with operations.files.upload(at("/"), OnConflict.RENAME) as upload:
                assert (await upload.store("HR", chunks(b"x"))).name == "HR (1)"
            parts = await operations.uploads.create(NewUpload(at("/deep"), 1, on_conflict=OnConflict.RENAME))
            assert (await operations.uploads.append(parts.id, 0, chunks(b"x"))).stored_at == at("/deep (1)")
            await operations.files.store(at("/DEEP/STRASSE/new"), chunks(b"x"))
        assert (await provider.stat(at("hr/new"))).size == 1
        assert (await provider.stat(at("hr/plan"))).size == 1
        await provider.close()


LOST = {"removed": "removed", "less": "permission", "elsewhere": "changed"}


@pytest.mark.parametrize("loss", LOST)
async def test_what_is_under_way_in_a_mount_ends_with_it(company: Company, loss: str) -> None:
    """Downloads, uploads, ZIPs, jobs, cursors, tickets, keys, links, begun uploads and items in the trash."""
    everything = "list download upload overwrite share"
    await company.installation.users.change("web", rights=ALL_RIGHTS)
    for number in range(3):
        company.put(f"../archive/m/{number}", b"x" * 10)
    company.put("../archive/m/tree/file")
    os.truncate(company.files.parent / "archive/m/0", LARGE)
    await company.mount("/m", "archive/m", everything)
    user = await company.user()
    async with user.request() as operations:
        await operations.files.delete(at("/m/2"))
        page = await operations.files.list(at("/m"), 1)
        begun = await operations.uploads.create(NewUpload(at("/m/tus"), 5))
        trashed = (await operations.trash.list(1)).items[0]
        key = await operations.account.add_key(KeyScope("key", None, at("/m")))
    by_key = Acting(company.installation, lambda context: user.gateway.authentication.with_token(context, key.text))
    ticket = await ticket_for(user, "/m/1", company.installation, recursive=False)
    guest = await guest_of(company.installation, "/m/tree")
    reached, lost = asyncio.Event(), asyncio.Event()

    async def endless(operations: Operations) -> Any:
        async with aclosing((await operations.files.read(at("/m/0"))).chunks) as content:
            async for _ in content:
                reached.set()

    async def storing(operations: Operations) -> Any:
        async def body() -> AsyncIterator[bytes]:
            yield b"x"
            reached.set()
            await lost.wait()
            yield b"y"

        await operations.files.store(at("/m/new"), body())

    async def zipping(operations: Operations) -> Any:
        archive = await operations.files.archive(at("/m"))
        async with aclosing(archive.chunks()) as content:
            async for _ in content:
                reached.set()

    async def copying(operations: Operations) -> Any:
        reached.set()
        await operations.files.copy(at("/m/0"), at("/copied"))

    async def running(work: Callable[[Operations], Awaitable[Any]]) -> None:
        async with user.request() as operations:
            await work(operations)

    async def lose() -> None:
        await company.unmount("/m")
        if loss == "less":
            await company.mount("/m", "archive/m", "list")
        if loss == "elsewhere":
            await company.mount("/m", "archive/other", everything)

    for work in (endless, storing, zipping, copying):
        reached.clear()
        lost.clear()
        task = asyncio.create_task(running(work))
        await reached.wait()
        await lose()
        lost.set()
        with pytest.raises(Forbidden):
            await asyncio.wait_for(task, 10)
        await company.unmount("/m") if loss != "removed" else None
        await company.mount("/m", "archive/m", everything)
    assert not (company.files.parent / "archive/m/new").exists()
    assert not (company.files / "web/copied").exists()
    await lose()
    async with user.request() as operations:
        if loss != "less":
            with pytest.raises((InvalidCursor, NotFound)):
                await operations.files.list(at("/m"), 1, page.token)
            with pytest.raises(NotFound):
                await operations.trash.restore(trashed.id)
        for refused in (operations.uploads.append(begun.id, 0, chunks(b"12345")), read(operations, "/m/1")):
            with pytest.raises((NotFound, Forbidden)):
                await refused
    with pytest.raises((NotSignedIn, NotFound, Forbidden)):
        async with ticket.request() as operations:
            await read(operations, "/m/1")
    with pytest.raises((NotSignedIn, NotFound, Forbidden)):
        async with by_key.request() as operations:
            await read(operations, "/1")
    with pytest.raises((NotSignedIn, NotFound, Forbidden)):
        async with guest.request() as operations:
            await read(operations, "/file")


async def test_a_table_of_one_mount_costs_nothing(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warm listing makes no query and one hop to a thread, and is made of these coroutines and no others."""
    company.put("web/a")
    user = await company.user()
    hops = 0
    run = ThreadPoolExecutor.submit

    def counted(self: ThreadPoolExecutor, *arguments: Any) -> Any:
        nonlocal hops
        hops += 1
        return run(self, *arguments)

    async def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("a query")

    begun: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & inspect.CO_COROUTINE and "portico" in code.co_filename:
            begun.append(code.co_name)

    with RequestContext("request", ADDRESS) as context:
        operations = user.gateway.operations(await user._credential(context))
        await operations.files.list(at("/"), 10)
        with monkeypatch.context() as patches:
            patches.setattr(ThreadPoolExecutor, "submit", counted)
            for name in ("first", "fetch", "execute", "transact"):
                patches.setattr(Database, name, never)
            sys.setprofile(note)
            try:
                page = await operations.files.list(at("/"), 10)
            finally:
                sys.setprofile(None)
    assert [entry.name for entry in page.entries] == ["a"]
    assert hops <= 1
    once = list(dict.fromkeys(begun))
    assert [name for name in once if name in ("at", "of", "_drive", "_open", "spelled", "ignores_case")] == [
        *("at", "of", "_drive", "_open")
    ]


async def test_two_who_see_a_folder_elsewhere_get_different_names(company: Company) -> None:
    await company.mount("/deep/mirror", "local/web/in")
    company.put("web/in/a")
    user = await company.user()
    both = asyncio.Barrier(2)

    async def body() -> AsyncIterator[bytes]:
        await both.wait()
        yield b"x"

    async def store(path: str) -> str:
        async with user.request() as operations:
            return (await operations.files.store(at(path), body(), None, OnConflict.RENAME)).name

    names = await asyncio.gather(store("/in/a"), store("/deep/mirror/a"))
    assert sorted(names) == ["a (1)", "a (2)"]
    assert sorted(os.listdir(company.files / "web/in")) == ["a", "a (1)", "a (2)"]


async def test_a_root_of_fifty_mounts_asks_no_storage(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    await company.unmount("/")
    for number in range(50):
        await company.mount(f"/{number:02}", f"archive/{number}", "list upload")
    user = await company.user()

    async def never(*_: Any) -> Any:
        raise AssertionError("a call to a storage")

    monkeypatch.setattr(InstrumentedProvider, "timed", never)
    async with user.request() as operations:
        for size in (7, 50, 1000):
            assert await names(operations, "/", size) == [f"{number:02}/" for number in range(50)]


async def test_a_move_between_storages_is_a_job_that_can_be_watched_and_cancelled(
    everywhere: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"/{number}": str(number).encode() for number in range(20)}
    for path, content in files.items():
        everywhere.put(f"web/tree{path}", content)
    user = await everywhere.user()
    writes, held, write = 0, asyncio.Event(), Drive.write

    async def holding(self: Drive, *given: Any, **options: Any) -> Entry:
        nonlocal writes
        writes += 1
        if writes > 10:
            held.set()
            await asyncio.Event().wait()
        return await write(self, *given, **options)

    async def move(operations: Operations) -> ChangeResult:
        return await operations.files.move(at("/tree"), at("/gcs/tree"), OnConflict.REPLACE)

    async def ended(operations: Operations, job_id: str) -> Job:
        while (job := await operations.jobs.get(job_id)).state == "running":
            await asyncio.sleep(0.01)
        return job

    async def begun(operations: Operations) -> Job:
        job = await operations.jobs.run("move", at("/tree"), at("/gcs/tree"), move, wait=0)
        assert isinstance(job, Job)
        return job

    async with user.request() as operations:
        with monkeypatch.context() as patched:
            patched.setattr(Drive, "write", holding)
            job = await begun(operations)
            await asyncio.wait_for(held.wait(), 60)
            await operations.jobs.cancel(job.id)
            assert (await ended(operations, job.id)).state == "cancelled"
        assert await tree_of(operations, "/tree") == files
        assert (await tree_of(operations, "/gcs/tree")).items() <= files.items()
        done = await ended(operations, (await begun(operations)).id)
        assert (done.state, done.result) == ("done", at("/gcs/tree"))
        assert done.entries >= len(files)
        assert await tree_of(operations, "/gcs/tree") == files
        with pytest.raises(NotFound):
            await tree_of(operations, "/tree")
