"""What a credential gives, tried on the operations directly: nothing beyond it, and nothing after it was taken away."""

import asyncio
import io
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import product
from secrets import token_hex
from typing import Any

import pytest

from portico.accounts.api_keys import KeyScope
from portico.accounts.users import Users
from portico.drive.drive import OnConflict
from portico.model.entries import Chunks
from portico.model.errors import Forbidden, IsAFolder, NotSignedIn, PorticoError, TargetGone
from portico.model.rights import DEFAULT_RIGHTS, Right
from portico.operations.actors.actor import Actor
from portico.operations.actors.attempt import Attempt
from portico.operations.actors.request_context import RequestContext
from portico.operations.operations import Operations
from portico.operations.sharing.links import LinkKind, LinkOptions
from portico.providers.contract.registry import open_provider
from portico.providers.contract.uploads import WriteOptions
from portico.providers.local.provider import LocalProvider

from ..servers.moto_s3 import KEYS as MOTO_S3_KEYS
from ..servers.moto_s3 import moto_buckets, moto_s3
from .test_second_front_end import ADDRESS, PASSWORD, Installation, at, chunks, installation

__all__ = ["installation"]

Credential = Callable[[RequestContext], Awaitable[Actor]]
LARGE = 4 * 2**30
"""Bytes of a sparse file: nobody reads it to its end before the actor is asked about."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is trusted for a while, and work under way is looked at all the time."""
    monkeypatch.setattr("portico.operations.actors.actor.TRUSTED_SECONDS", -1.0)
    monkeypatch.setattr("portico.operations.actors.actor.WATCH_SECONDS", 0.01)


class Acting:
    """Requests by one credential."""

    def __init__(self, installation: Installation, credential: Credential) -> None:
        self.gateway = installation.front_end.gateway
        self._credential = credential

    @asynccontextmanager
    async def request(self) -> AsyncIterator[Operations]:
        with RequestContext("request", ADDRESS) as context:
            yield self.gateway.operations(await self._credential(context))

    async def actor(self) -> Actor:
        return await self._credential(RequestContext("request", ADDRESS))

    async def names(self, *arguments: Any) -> list[str]:
        """In an archive."""
        async with self.request() as operations:
            archive = await operations.files.archive(*arguments)
            content = b"".join([chunk async for chunk in archive.chunks()])
        return sorted(zipfile.ZipFile(io.BytesIO(content)).namelist())


async def signed_in(installation: Installation, name: str = "web") -> Acting:
    front = installation.front_end
    await front.sign_in(name)
    token = front.token
    return Acting(installation, lambda context: front.gateway.authentication.with_token(context, token))


async def by_key(installation: Installation) -> Acting:
    acting = await signed_in(installation)
    account = acting.gateway.operations(await acting.actor()).account
    text = (await account.add_key(KeyScope("key"))).text
    return Acting(installation, lambda context: acting.gateway.authentication.with_token(context, text))


async def guest_of(installation: Installation, path: str, kind: LinkKind = LinkKind.DOWNLOAD, **options: Any) -> Acting:
    acting = await signed_in(installation)
    async with acting.request() as operations:
        link = await operations.shares.add(at(path), kind, LinkOptions(**options))
    assert link.token
    gateway = acting.gateway
    visit = await gateway.guest_sign_in.open(RequestContext("open", ADDRESS), link.token)
    return Acting(installation, lambda context: gateway.authentication.with_token(context, visit.token))


async def ticket_for(acting: Acting, path: str, installation: Installation, *, recursive: bool) -> Acting:
    async with acting.request() as operations:
        ticket = await operations.files.ticket(at(path), recursive=recursive)
    with_ticket = acting.gateway.authentication.with_ticket
    return Acting(installation, lambda context: with_ticket(context, ticket.text, at(path)))


@pytest.fixture
async def sharer(installation: Installation) -> Users:
    await installation.users.change("web", rights=frozenset(Right))
    return installation.users


@pytest.fixture
async def twins(installation: Installation, sharer: Users) -> AsyncIterator[None]:
    """On an object store, a file `report` and a folder `report`."""
    bucket = f"bucket-{token_hex(8)}"
    options = {"bucket": bucket, "endpoint-url": moto_s3(), "prefix": "top"}
    with moto_buckets(bucket):
        await installation.connections.add("s3", "s3", options, MOTO_S3_KEYS)
        await sharer.change("web", connection="s3", root="/")
        provider: Any = open_provider("s3", {**options, **MOTO_S3_KEYS})
        for key in ("report", "report/private.txt", "pub/a.txt"):
            await provider.store(f"top/{key}", chunks(key.encode()), "text/plain", WriteOptions())
        await provider.close()
        yield


@pytest.mark.usefixtures("twins")
@pytest.mark.parametrize("who", ["guest", "ticket", "guest's ticket"])
async def test_a_file_is_not_the_folder_of_its_name(installation: Installation, who: str) -> None:
    if who == "ticket":
        acting = await ticket_for(await signed_in(installation), "/report", installation, recursive=True)
    else:
        acting = await guest_of(installation, "/report")
    if who == "guest's ticket":
        acting = await ticket_for(acting, "/report", installation, recursive=True)
    async with acting.request() as operations:
        for refused in (
            operations.files.archive(at("/report/")),
            operations.files.archive(at("/report"), [at("/report/private.txt")]),
            operations.files.archive(at("/report/"), [at("/report/private.txt")]),
            operations.files.archive(at("/")),
            operations.files.ticket(at("/report/"), recursive=True),
            operations.files.read(at("/report/private.txt")),
            operations.files.read(at("/report/")),
            operations.files.stat_for_download(at("/report/")),
            operations.files.list(at("/report/"), 10),
        ):
            with pytest.raises(Forbidden):
                await refused
        if who != "guest":
            with pytest.raises(Forbidden):  # a ticket gives no further ones
                await operations.files.ticket(at("/report"))
        download = await operations.files.read(at("/report"))
        assert b"".join([chunk async for chunk in download.chunks]) == b"report"
    assert await acting.names(at("/report")) == ["report"]


@pytest.mark.usefixtures("twins")
async def test_a_ticket_for_a_folder_is_not_for_the_file_of_its_name(installation: Installation) -> None:
    user = await signed_in(installation)
    acting = await ticket_for(user, "/report/", installation, recursive=True)
    assert await acting.names(at("/report")) == ["report/", "report/private.txt"]
    assert await acting.names(at("/report"), [at("/report/private.txt")]) == ["private.txt"]
    async with acting.request() as operations:
        for refused in (operations.files.read(at("/report")), operations.files.stat_for_download(at("/report"))):
            with pytest.raises(IsAFolder):
                await refused
        with pytest.raises(Forbidden):
            await operations.files.archive(at("/report"), [at("/pub/a.txt")])


@pytest.mark.usefixtures("twins")
async def test_links_of_twins_follow_their_own(installation: Installation) -> None:
    folder, file = await guest_of(installation, "/report/"), await guest_of(installation, "/report")
    user = await signed_in(installation)
    async with user.request() as operations:
        await operations.files.move(at("/report"), at("/pub/moved"))
    assert (await folder.names(at("/"))) == ["private.txt"]
    installation.forget()
    assert await file.names(at("/moved")) == ["moved"]
    async with user.request() as operations:
        await operations.files.delete(at("/report/"), recursive=True)
    installation.forget()
    assert await file.names(at("/moved")) == ["moved"]
    with pytest.raises(TargetGone):
        await folder.names(at("/"))


@pytest.mark.usefixtures("sharer")
@pytest.mark.parametrize("target", ["/secret/b.txt", "/pub/b.txt"])
async def test_a_guests_ticket_does_not_open_another_file_after_a_move(installation: Installation, target: str) -> None:
    for path, content in (("pub/a.txt", b"public"), ("secret/a.txt", b"private"), ("pub/x", b"private")):
        (installation.files / path).parent.mkdir(exist_ok=True)
        (installation.files / path).write_bytes(content)
    guest = await guest_of(installation, "/pub/a.txt")
    ticket = await ticket_for(guest, "/a.txt", installation, recursive=False)
    await ticket.actor()
    async with (await signed_in(installation)).request() as operations:
        await operations.files.move(at("/pub/a.txt"), at(target))
        await operations.files.move(at("/pub/x"), at("/pub/a.txt"))
    with pytest.raises(NotSignedIn):
        await ticket.actor()


LOSSES: dict[str, dict[str, Any]] = {
    "disabled": {"disabled": True},
    "root": {"root": "/elsewhere"},
    "rights": {"rights": [Right.LIST]},
}


@pytest.mark.parametrize("who", ["session", "key", "guest"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.usefixtures("sharer")
async def test_nothing_is_stored_after_a_loss(installation: Installation, who: str, loss: str) -> None:
    (installation.files / "box").mkdir()
    if who == "guest":
        acting = await guest_of(installation, "/box", LinkKind.BOTH)
    else:
        acting = await (signed_in if who == "session" else by_key)(installation)

    async def meanwhile() -> AsyncIterator[bytes]:
        yield b"x"
        await installation.users.change("web", **LOSSES[loss])

    async with acting.request() as operations:
        with pytest.raises(NotSignedIn if loss == "disabled" or who == "guest" else Forbidden):
            await operations.files.store(at("/a"), meanwhile())
    assert [*installation.files.rglob("*")] == [installation.files / "box"]
    assert not (installation.files.parent / "elsewhere").exists()


@pytest.mark.parametrize(
    ("rights", "stored"),
    [
        (DEFAULT_RIGHTS - {Right.REPLACE}, False),
        (DEFAULT_RIGHTS - {Right.DOWNLOAD, Right.LIST}, True),
        (DEFAULT_RIGHTS, True),
    ],
)
@pytest.mark.usefixtures("sharer")
async def test_only_rights_that_an_upload_needs_count(
    installation: Installation, rights: frozenset[Right], stored: bool
) -> None:
    (installation.files / "a").write_bytes(b"old")

    async def meanwhile() -> AsyncIterator[bytes]:
        yield b"new"
        await installation.users.change("web", rights=rights)

    async with (await signed_in(installation)).request() as operations:
        if stored:
            await operations.files.store(at("/a"), meanwhile())
        else:
            with pytest.raises(Forbidden):
                await operations.files.store(at("/a"), meanwhile())
    assert (installation.files / "a").read_bytes() == (b"new" if stored else b"old")


@pytest.mark.parametrize("who", ["session", "key"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("work", ["copy", "move", "delete", "delete a file", "job"])
async def test_long_work_ends_with_the_right_to_it(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, who: str, loss: str, work: str
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(*_: Any, **__: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    provided = {"job": "copy", "delete": "move_to_trash", "delete a file": "move_to_trash"}
    monkeypatch.setattr(LocalProvider, provided.get(work, work), endless)
    if work == "delete a file":
        (installation.files / "tree").write_bytes(b"")
    else:
        (installation.files / "tree").mkdir()
    acting = await (signed_in if who == "session" else by_key)(installation)

    async def run() -> Any:
        async with acting.request() as operations:
            if work.startswith("delete"):
                await operations.files.delete(at("/tree"), recursive=work == "delete")
            elif work == "job":

                async def copy(operations: Operations) -> Any:
                    return await operations.files.copy(at("/tree"), at("/new"))

                return await operations.jobs.run("copy", at("/tree"), at("/new"), copy, wait=0)
            else:
                await getattr(operations.files, work)(at("/tree"), at("/new"))
        return None

    task = asyncio.create_task(run())
    async with asyncio.timeout(60):
        await begun.wait()
        await installation.users.change("web", **LOSSES[loss])
        await ended.wait()
        if work == "job":
            assert (await task).state == "running"
        else:
            with pytest.raises(NotSignedIn if loss == "disabled" else Forbidden):
                await task


async def test_a_file_is_deleted_although_the_client_hangs_up(installation: Installation) -> None:
    (installation.files / "a").write_bytes(b"content")
    user = await signed_in(installation)

    async def gone() -> None:
        return

    async with user.request() as operations:
        operations.files._context.client_gone = gone
        await operations.files.delete(at("/a"))
    assert not (installation.files / "a").exists()


async def read_until_refused(stream: Chunks, change: Callable[[], Awaitable[object]]) -> PorticoError:
    await anext(stream)
    await anext(stream)
    await change()
    try:
        async with asyncio.timeout(120):
            async for _ in stream:
                pass
    except PorticoError as error:
        return error
    finally:
        await stream.aclose()
    raise AssertionError("it was read to its end")


@pytest.mark.parametrize("what", ["file", "zip"])
@pytest.mark.parametrize(("who", "loss"), [*product(("session", "key", "ticket", "guest"), LOSSES), ("guest", "link")])
@pytest.mark.usefixtures("sharer")
async def test_a_download_ends_with_the_right_to_it(installation: Installation, who: str, what: str, loss: str) -> None:
    folder = installation.files / "box"
    folder.mkdir()
    with (folder / "large").open("wb") as file:
        file.truncate(LARGE)
    path = "/box/large"
    if who == "guest":
        acting, path = await guest_of(installation, "/box"), "/large"
    elif who == "key":
        acting = await by_key(installation)
    else:
        acting = await signed_in(installation)
    if who == "ticket":
        acting = await ticket_for(acting, path, installation, recursive=False)

    async def lose() -> None:
        if loss != "link":
            await installation.users.change("web", **LOSSES[loss])
            return
        async with (await signed_in(installation)).request() as operations:
            (link,) = await operations.shares.list()
            await operations.shares.end(link.link.id)

    async with acting.request() as operations:
        if what == "file":
            stream = (await operations.files.read(at(path))).chunks
        else:
            stream = (await operations.files.archive(at(path))).chunks()
        error = await read_until_refused(stream, lose)
    assert isinstance(error, NotSignedIn if loss == "disabled" or who == "guest" else Forbidden)


@pytest.mark.usefixtures("sharer")
async def test_a_guests_download_goes_on_when_the_owner_renames_the_folder(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    (installation.files / "box").mkdir()
    with (installation.files / "box" / "large").open("wb") as file:
        file.truncate(64 * 2**20)
    guest = await guest_of(installation, "/box")
    asked = asyncio.Event()
    current_user = installation.guests.current_user

    async def noticed(*arguments: Any) -> Any:
        found = await current_user(*arguments)
        asked.set()
        return found

    monkeypatch.setattr(installation.guests, "current_user", noticed)
    async with guest.request() as operations:
        stream = (await operations.files.read(at("/large"))).chunks
        await anext(stream)
        await anext(stream)
        async with (await signed_in(installation)).request() as owner:
            await owner.files.move(at("/box"), at("/moved"))
        asked.clear()
        async with asyncio.timeout(60):
            await asked.wait()
        assert sum([len(chunk) async for chunk in stream])
        await stream.aclose()


@pytest.mark.parametrize("who", ["session", "key"])
@pytest.mark.parametrize("loss", ["root", "rights"])
async def test_an_answer_is_not_repeated_after_a_loss(installation: Installation, who: str, loss: str) -> None:
    acting = await (signed_in if who == "session" else by_key)(installation)
    idempotency, request = acting.gateway.idempotency, b"r" * 32

    async def begin() -> Attempt | bytes:
        return await idempotency.begin(await acting.actor(), "key", request)

    attempt = await begin()
    assert isinstance(attempt, Attempt)
    await attempt.answer(b"stored")
    assert await begin() == b"stored"
    await installation.users.change("web", **LOSSES[loss])
    installation.forget()
    with pytest.raises(Forbidden, match="new idempotency key"):
        await begin()
    await installation.users.change("web", root="/web", rights=DEFAULT_RIGHTS)
    installation.forget()
    assert await begin() == b"stored"


@pytest.mark.usefixtures("sharer")
async def test_an_archive_is_counted_when_it_is_read(installation: Installation) -> None:
    (installation.files / "a").write_bytes(b"x")
    guest = await guest_of(installation, "/", max_downloads=1)
    async with guest.request() as operations:
        archive = await operations.files.archive(at("/"))
        assert archive.size
        await archive.close()
    assert await guest.names(at("/")) == ["a"]
    other = await guest_of(installation, "/")
    assert await other.names(at("/")) == ["a"]


@pytest.mark.usefixtures("sharer")
@pytest.mark.parametrize("permanent", [False, True])
@pytest.mark.parametrize("path", ["box", "box/in/a"])
async def test_another_folder_does_not_revive_a_link(installation: Installation, permanent: bool, path: str) -> None:
    (installation.files / "box" / "in").mkdir(parents=True)
    (installation.files / "box" / "in" / "a").write_bytes(b"shared")
    guest = await guest_of(installation, f"/{path}")
    user = await signed_in(installation)
    shown = at("/a") if path.endswith("a") else at("/")
    async with user.request() as operations:
        await operations.files.delete(at("/box"), recursive=True, permanent=permanent)
    async with user.request() as operations:
        await operations.files.store(at("/box/in/a"), chunks(b"other"))
    installation.forget()
    with pytest.raises(TargetGone):
        await guest.names(shown)
    if permanent:
        return
    async with user.request() as operations:
        (item,) = (await operations.trash.list(10)).items
        restored = await operations.trash.restore(item.id, OnConflict.RENAME)
    assert restored.path == at("/box (1)")
    installation.forget()
    async with guest.request() as operations:
        download = await operations.files.read(at("/a" if path.endswith("a") else "/in/a"))
        assert b"".join([chunk async for chunk in download.chunks]) == b"shared"


async def test_a_disabled_account_is_told_apart_in_the_audit_log_only(installation: Installation) -> None:
    await installation.users.change("web", disabled=True)
    said = []
    for name, password in (("web", PASSWORD), ("web", "wrong password"), ("nobody", PASSWORD)):
        with pytest.raises(PorticoError) as caught:
            await installation.front_end.sign_in(name, password)
        said.append((caught.value.code, caught.value.detail))
    assert len(set(said)) == 1
    assert [outcome for _, _, outcome in installation.audited] == ["disabled", "wrong-password", "wrong-password"]
