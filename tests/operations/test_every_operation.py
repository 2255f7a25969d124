"""Every public operation for every kind of credential, from one table: what it gives, and that nothing else is possible."""

import inspect
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from portico.accounts.api_keys import KeyScope
from portico.model.errors import Forbidden, IsAFolder, NotFound, NotSignedIn, PorticoError
from portico.model.rights import Right
from portico.operations.account import OwnAccount
from portico.operations.activity import Activity
from portico.operations.actors.auditing import ChangeResult
from portico.operations.actors.request_context import RequestContext
from portico.operations.files.digests import WantedDigest
from portico.operations.files.files import Files
from portico.operations.files.search import Criteria
from portico.operations.jobs import UserJobs
from portico.operations.operations import Operations
from portico.operations.rewind.own import OwnRewinds
from portico.operations.sharing.links import LinkKind, LinkOptions, Shares
from portico.operations.trash import Trash
from portico.operations.uploads.access import NewUpload
from portico.operations.uploads.concatenation import Concatenation
from portico.operations.uploads.resumable import ResumableUploads

from .test_scope import Acting, by_key, guest_of, sharer, signed_in, ticket_for
from .test_second_front_end import ADDRESS, PASSWORD, Installation, at, chunks, installation

__all__ = ["installation", "sharer"]

FEATURES = {
    "files": Files,
    "uploads": ResumableUploads,
    "concatenation": Concatenation,
    "trash": Trash,
    "activity": Activity,
    "rewinds": OwnRewinds,
    "shares": Shares,
    "jobs": UserJobs,
    "account": OwnAccount,
}
HARMLESS = {
    "files.receipt",
    "files.has_digests",
    "uploads.ended_unless_begun",
    "account.is_current",
    "jobs.require_room",
}
"""They tell what is known already, and change nothing."""


async def _upload(operations: Operations, things: Any) -> None:
    async with operations.files.upload(at("/in")) as upload:
        await upload.store("form", chunks(b"x"))


async def _thumbnail(operations: Operations, things: Any) -> None:
    await operations.files.make_thumbnail(await operations.files.plan_thumbnail(at("/in/a"), 100))


async def _digests(operations: Operations, things: Any) -> None:
    page = await operations.files.list(at("/in"), 10)
    await operations.files.digests(at("/in"), page.entries)


async def _walk(operations: Operations, things: Any) -> None:
    assert [page.ended async for page in operations.files.walk(at("/in"), 1000, recursive=True)] == [True]


async def _nothing(_: Operations) -> ChangeResult:
    return ChangeResult()


CALLS: dict[str, Callable[[Operations, Any], Awaitable[Any]]] = {
    "files.list": lambda o, t: o.files.list(at("/in"), 10),
    "files.read_or_list": lambda o, t: o.files.read_or_list(at("/in"), 10),
    "files.walk": _walk,
    "files.search": lambda o, t: o.files.search(at("/"), Criteria(name="a"), 10),
    "files.stat": lambda o, t: o.files.stat(at("/in/a")),
    "files.digests": _digests,
    "files.digest": lambda o, t: o.files.digest(at("/in/a"), None),  # type: ignore[arg-type]
    "files.stat_for_download": lambda o, t: o.files.stat_for_download(at("/in/a")),
    "files.read": lambda o, t: o.files.read(at("/in/a")),
    "files.archive": lambda o, t: o.files.archive(at("/in"), [at("/in/a")]),
    "files.plan_thumbnail": lambda o, t: o.files.plan_thumbnail(at("/in/a"), 100),
    "files.make_thumbnail": _thumbnail,
    "files.ticket": lambda o, t: o.files.ticket(at("/in/a")),
    "files.store": lambda o, t: o.files.store(at("/in/b"), chunks(b"x")),
    "files.upload": _upload,
    "files.make_folder": lambda o, t: o.files.make_folder(at("/in/new")),
    "files.copy": lambda o, t: o.files.copy(at("/in/a"), at("/in/copy")),
    "files.move": lambda o, t: o.files.move(at("/in/c"), at("/in/moved")),
    "files.delete": lambda o, t: o.files.delete(at("/in/d")),
    "files.count_files": lambda o, t: o.files.count_files(at("/in")),
    "uploads.create": lambda o, t: o.uploads.create(NewUpload(at("/in/tus"), 5)),
    "uploads.create_partial": lambda o, t: o.uploads.create_partial(5),
    "uploads.status": lambda o, t: o.uploads.status(t.upload),
    "uploads.append": lambda o, t: o.uploads.append(t.upload, 0, chunks(b"x")),
    "uploads.end": lambda o, t: o.uploads.end(t.upload),
    "concatenation.store": lambda o, t: o.concatenation.store(NewUpload(at("/in/whole")), [t.upload], WantedDigest()),
    "trash.list": lambda o, t: o.trash.list(10),
    "trash.path_to_restore": lambda o, t: o.trash.path_to_restore(t.trashed),
    "trash.path_to_remove": lambda o, t: o.trash.path_to_remove(t.trashed),
    "trash.restore": lambda o, t: o.trash.restore(t.trashed),
    "trash.remove": lambda o, t: o.trash.remove(t.trashed),
    "trash.empty": lambda o, t: o.trash.empty(),
    "trash.restorable": lambda o, t: o.trash.restorable([t.trashed]),
    "activity.list": lambda o, t: o.activity.list(at("/in"), 10),
    "rewinds.plan": lambda o, t: o.rewinds.plan(0),
    "rewinds.begin": lambda o, t: o.rewinds.begin(0),
    "rewinds.run": lambda o, t: o.rewinds.run("r"),
    "rewinds.get": lambda o, t: o.rewinds.get("r"),
    "shares.add": lambda o, t: o.shares.add(at("/in"), LinkKind.DOWNLOAD, LinkOptions()),
    "shares.list": lambda o, t: o.shares.list(),
    "shares.get": lambda o, t: o.shares.get(t.link),
    "shares.change": lambda o, t: o.shares.change(t.link, LinkOptions(title="x")),
    "shares.renew": lambda o, t: o.shares.renew(t.link),
    "shares.end": lambda o, t: o.shares.end(t.link),
    "shares.accesses": lambda o, t: o.shares.accesses(t.link, 10),
    "jobs.run": lambda o, t: o.jobs.run("copy", at("/in/a"), at("/in/copy"), _nothing, wait=60),
    "jobs.get": lambda o, t: o.jobs.get("j"),
    "jobs.list": lambda o, t: o.jobs.list(),
    "jobs.cancel": lambda o, t: o.jobs.cancel("j"),
    "account.change_password": lambda o, t: o.account.change_password("wrong", PASSWORD + " too"),
    "account.sessions": lambda o, t: o.account.sessions(),
    "account.end_session": lambda o, t: o.account.end_session("s"),
    "account.end_other_sessions": lambda o, t: o.account.end_other_sessions(),
    "account.keys": lambda o, t: o.account.keys(),
    "account.add_key": lambda o, t: o.account.add_key(KeyScope("another")),
    "account.end_key": lambda o, t: o.account.end_key("k"),
}
"""One call for each operation, with the ids of things that belong to the user."""
UNKNOWN = {
    *("jobs.get", "jobs.cancel", "account.end_session", "account.end_key", "concatenation.store"),
    *("rewinds.run", "rewinds.get"),
}
"""What these are about does not exist: `NotFound` is the answer for those who may ask."""

DOWNLOADS = {"files.stat_for_download", "files.read", "files.plan_thumbnail", "files.make_thumbnail"}
READS = DOWNLOADS | {
    *(
        "files.list",
        "files.read_or_list",
        "files.search",
        "files.walk",
        "files.stat",
        "files.digests",
        "files.archive",
        "files.count_files",
    ),
    "files.ticket",
}
UPLOADS = {"files.store", "files.upload", "files.make_folder", *(name for name in CALLS if name.startswith("uploads."))}
UPLOADS |= {"concatenation.store"}
CHANGES = {"files.copy", "files.move", "files.delete"}
FILES = {name for name in CALLS if name.startswith("files.")} - {"files.digest"}
OWN = {name for name in CALLS if name.split(".")[0] in ("trash", "activity", "shares", "jobs")}
BY_SESSION = {name for name in CALLS if name.split(".")[0] in ("account", "rewinds")}

ALLOWED = {
    "user": set(CALLS) - {"files.digest"},
    "password": set(CALLS) - {"files.digest", "files.ticket"} - BY_SESSION,
    "key": FILES - {"files.ticket"} | UPLOADS | OWN,
    "key that lists": {"files.list", "files.read_or_list", "files.search", "files.stat", "files.count_files"}
    | {"files.digests", "files.walk"}
    | {"trash.list", "trash.restorable", "activity.list", "jobs.run", "jobs.get", "jobs.list", "jobs.cancel"},
    "ticket": DOWNLOADS,
    "guest of a folder": READS,
    "guest who may send": READS | UPLOADS - {"uploads.status", "uploads.append", "uploads.end"},  # not their own
    "guest of a file": set(),
    "sender": {"uploads.create_partial", "concatenation.store"},  # all else here is about a folder
}
"""For each actor, the operations that are not refused."""


async def acting(who: str, installation: Installation) -> Acting:
    match who:
        case "user":
            return await signed_in(installation)
        case "password":
            authentication = installation.front_end.gateway.authentication
            return Acting(installation, lambda context: authentication.with_password(context, "web", PASSWORD))
        case "key":
            return await by_key(installation)
        case "key that lists":
            user = await signed_in(installation)
            account = user.gateway.operations(await user.actor()).account
            key = await account.add_key(KeyScope("lists", rights=frozenset({Right.LIST})))
            return Acting(installation, lambda context: user.gateway.authentication.with_token(context, key.text))
        case "ticket":
            return await ticket_for(await signed_in(installation), "/in/a", installation, recursive=False)
        case "guest of a folder":
            return await guest_of(installation, "/")
        case "guest of a file":
            return await guest_of(installation, "/in/a")
        case "guest who may send":
            return await guest_of(installation, "/", LinkKind.BOTH)
    return await guest_of(installation, "/", LinkKind.REQUEST, ask_name=False)


def test_every_operation_is_in_the_table() -> None:
    public = {
        f"{feature}.{name}"
        for feature, kind in FEATURES.items()
        for name, member in inspect.getmembers(kind, callable)
        if not name.startswith("_")
    }
    assert public - HARMLESS == set(CALLS)
    shown = {name for name, _ in inspect.getmembers(Operations) if not name.startswith("_")}
    assert shown == {*FEATURES, "allows", "lists"}


async def things(installation: Installation) -> Any:
    """Files, and what the user has begun with them."""
    folder = installation.files / "in"
    folder.mkdir(exist_ok=True)
    for file in ("a", "c", "d", "trashed"):
        (folder / file).write_bytes(b"content")
    user = await signed_in(installation)
    async with user.request() as operations:
        upload = await operations.uploads.create(NewUpload(at("/in/begun"), 5))
        link = await operations.shares.add(at("/in"), LinkKind.DOWNLOAD, LinkOptions())
        await operations.files.delete(at("/in/trashed"))
        (item, *_) = (await operations.trash.list(10)).items
    return SimpleNamespace(upload=upload.id, link=link.link.id, trashed=item.id)


@pytest.mark.usefixtures("sharer")
@pytest.mark.parametrize("who", ALLOWED)
async def test_a_credential_gives_what_the_table_says(installation: Installation, who: str) -> None:
    await things(installation)
    actor = await acting(who, installation)
    found: set[str] = set()
    for name, call in CALLS.items():
        if name == "files.digest":
            continue  # it needs the entry of a file that is about to be read
        owned = await things(installation)
        try:
            async with actor.request() as operations:
                result = await call(operations, owned)
            if hasattr(result, "chunks") and not callable(result.chunks):
                await result.chunks.aclose()
            elif hasattr(result, "close"):
                await result.close()
        except (Forbidden, NotSignedIn, IsAFolder):
            continue
        except NotFound:
            if name not in UNKNOWN:
                continue
        except PorticoError:
            pass  # allowed, and then something else was wrong
        found.add(name)
    assert sorted(found) == sorted(ALLOWED[who])


async def test_a_password_alone_makes_an_actor_without_a_session(installation: Installation) -> None:
    front = installation.front_end
    await front.sign_in("web")
    user = await signed_in(installation)
    account = user.gateway.operations(await user.actor()).account
    before = len(await account.sessions())
    with RequestContext("request", ADDRESS) as context:
        actor = await front.gateway.authentication.with_password(context, "web", PASSWORD)
        assert (await front.gateway.operations(actor).files.list(at("/"), 10)).entries == []
        with pytest.raises(Forbidden):
            actor.require_session()
    assert len(await account.sessions()) == before
    with RequestContext("request", ADDRESS) as context, pytest.raises(PorticoError, match="password"):
        await front.gateway.authentication.with_password(context, "web", "wrong")
