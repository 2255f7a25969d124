"""A second front end: it drives every operation without HTTP, and without anything of `portico.api`."""

import asyncio
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from portico.accounts.connections import Connections
from portico.accounts.passwords import Passwords
from portico.accounts.users import Users
from portico.accounts.vault import SecretKey, Vault
from portico.model.errors import (
    Changed,
    DigestMismatch,
    Forbidden,
    InvalidRequest,
    IsAFolder,
    NotSignedIn,
    PorticoError,
    TooLarge,
    Unavailable,
    WrongPassword,
)
from portico.model.paths import Path
from portico.observability.metrics import Metrics
from portico.operations.actors import request_context
from portico.operations.actors.actor import Actor
from portico.operations.actors.cancellation import CancellableWork, ChangeAbandoned
from portico.operations.actors.request_context import RequestContext
from portico.operations.files.digests import ExpectedDigest
from portico.operations.files.files import OnConflict
from portico.operations.gateway import Gateway
from portico.operations.operations import Features, Operations
from portico.providers.local.provider import LocalProvider
from portico.server.composition import open_gateway
from portico.settings import settings
from portico.store.database import Database

ADDRESS = "192.0.2.7"
PASSWORD = "correct horse"


class FrontEnd:
    """Takes commands as Python calls: each is one request of one client."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.token = ""
        self.client_gone = asyncio.Event()
        self.served: list[str | None] = []
        """The user of each request."""

    async def request(self, serve: Callable[[RequestContext], Awaitable[Any]]) -> Any:
        request_id = f"request-{len(self.served) + 1}"
        with RequestContext(request_id, ADDRESS, self.client_gone.wait) as context:
            try:
                return await serve(context)
            finally:
                self.served.append(context.user)

    async def sign_in(self, user: str, password: str = PASSWORD) -> None:
        sign_in = self.gateway.authentication.sign_in
        self.token = (await self.request(lambda c: sign_in(c, user, password))).tokens.access_token

    async def actor(self, context: RequestContext) -> Actor:
        return await self.gateway.authentication.with_token(context, self.token)

    async def operations(self, context: RequestContext) -> Operations:
        return self.gateway.operations(await self.actor(context))

    async def call(self, operation: str, *arguments: Any, **options: Any) -> Any:
        async def serve(context: RequestContext) -> Any:
            return await getattr((await self.operations(context)).files, operation)(*arguments, **options)

        return await self.request(serve)

    async def sign_out(self) -> None:
        async def serve(context: RequestContext) -> None:
            await self.gateway.authentication.sign_out(await self.actor(context))

        await self.request(serve)


class Installation:
    """A front end over a real database, a real folder and a real audit log."""

    def __init__(
        self,
        home: pathlib.Path,
        users: Users,
        connections: Connections,
        front_end: FrontEnd,
        long_work: CancellableWork,
    ) -> None:
        self.users = users
        self.front_end = front_end
        self.long_work = long_work
        self.files = home / "files" / "web"
        self.connections = connections
        operations: Any = front_end.gateway.operations
        features: Features = operations.args[0]
        self.guests = features.files.guests
        self.sessions = features.account.sessions
        self._audit = home / "audit.log"

    def forget(self) -> None:
        """What is cached of credentials."""
        authentication: Any = self.front_end.gateway.authentication
        for credentials in (self.sessions, self.guests, authentication._keys):
            credentials.forget()

    @property
    def lines(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._audit.read_text().splitlines()]
        return [line for line in lines if line["action"] != "audit.checkpoint"]

    @property
    def audited(self) -> list[tuple[str, str | None, str]]:
        return [(line["action"], line.get("path"), line["outcome"]) for line in self.lines]


def settings_of(home: pathlib.Path) -> settings.Settings:
    overrides = {
        "security.client-id": "second",
        "security.client-secret": "secret",
        "audit.required": "true",
        "journal.downloads": "false",  # their lines come later
        "upload.max-file-size": "10",
    }
    return settings.load(home, {}, overrides)


@pytest.fixture
async def installation(tmp_path: pathlib.Path, first_installation: pathlib.Path) -> AsyncIterator[Installation]:
    shutil.copytree(first_installation, tmp_path, dirs_exist_ok=True)
    chosen = settings_of(tmp_path)
    database, passwords, long_work = Database(chosen.database_url), Passwords(), CancellableWork()
    connections = Connections(database, Vault(SecretKey.load(chosen.secret_key_file, {})))
    users = Users(database, passwords)
    async with open_gateway(chosen, Metrics(), long_work) as gateway:
        yield Installation(tmp_path, users, connections, FrontEnd(gateway), long_work)
    passwords.close()
    await database.close()


def at(text: str) -> Path:
    return Path.parse(text)


async def chunks(*content: bytes) -> AsyncIterator[bytes]:
    for chunk in content:
        yield chunk


async def test_every_operation(installation: Installation) -> None:
    front = installation.front_end
    await front.sign_in("web")
    entry = await front.call("store", at("/in/a.txt"), chunks(b"01234", b"56789"))
    assert (entry.name, entry.size) == ("a.txt", 10)
    renamed = await front.call("store", at("/in/a.txt"), chunks(), None, OnConflict.RENAME)
    assert renamed.name == "a (1).txt"
    await front.call("make_folder", at("/new"))
    assert (await front.call("copy", at("/in/a.txt"), at("/new/b"))).path == at("/new/b")
    assert (await front.call("move", at("/new/b"), at("/new/c"))).path == at("/new/c")
    page = await front.call("list", at("/in"), 1)
    rest = await front.call("list", at("/in"), 10, page.token)
    assert [each.name for each in page.entries + rest.entries] == ["a (1).txt", "a.txt"]
    assert (await front.call("stat", at("/new"))).is_folder
    assert (await front.call("stat_for_download", at("/in/a.txt"))).size == 10
    download = await front.call("read", at("/in/a.txt"), 2, 4)
    assert b"".join([chunk async for chunk in download.chunks]) == b"23"
    await download.chunks.aclose()
    ticket = await front.call("ticket", at("/in/a.txt"))
    with pytest.raises(IsAFolder):
        await front.call("ticket", at("/in"))
    with pytest.raises(IsAFolder):
        await front.call("stat_for_download", at("/in"))

    async def download_with_ticket(context: RequestContext) -> bytes:
        actor = await front.gateway.authentication.with_ticket(context, ticket.text, at("/in/a.txt"))
        download = await front.gateway.operations(actor).files.read(at("/in/a.txt"))
        content = b"".join([chunk async for chunk in download.chunks])
        await download.chunks.aclose()
        return content

    assert await front.request(download_with_ticket) == b"0123456789"
    await front.call("delete", at("/in/a.txt"))
    await front.call("delete", at("/new"), recursive=True)
    await front.sign_out()
    with pytest.raises(NotSignedIn):
        await front.call("list", at("/"), 10)

    assert installation.audited == [
        ("sign-in", None, "done"),
        *(("upload", "/in/a.txt", "begun"), ("upload", "/in/a.txt", "done")),
        *(("upload", "/in/a.txt", "begun"), ("upload", "/in/a (1).txt", "done")),
        *(("mkdir", "/new", "begun"), ("mkdir", "/new", "done")),
        *(("copy", "/in/a.txt", "begun"), ("copy", "/in/a.txt", "done")),
        *(("move", "/new/b", "begun"), ("move", "/new/b", "done")),
        *(("delete", "/in/a.txt", "begun"), ("delete", "/in/a.txt", "done")),
        *(("delete", "/new", "begun"), ("delete", "/new", "done")),
        *(("sign-out", None, "begun"), ("sign-out", None, "done")),
    ]
    assert {(line["user"], line["client"]) for line in installation.lines} == {("web", ADDRESS)}
    assert [line["request_id"] for line in installation.lines[:4]] == ["request-1", *["request-2"] * 2, "request-3"]
    assert installation.lines[1]["bytes"] == 10
    assert [line["target"] for line in installation.lines if line["action"] == "copy"] == ["/new/b"] * 2
    assert set(front.served[:-1]) == {"web"}


async def test_sign_in_is_audited_when_it_fails(installation: Installation) -> None:
    with pytest.raises(WrongPassword):
        await installation.front_end.sign_in("web", "wrong password")
    assert installation.audited == [("sign-in", None, "wrong-password")]
    assert installation.front_end.served == ["web"]


async def test_a_token_is_refreshed(installation: Installation) -> None:
    front = installation.front_end
    pair = await front.request(lambda c: front.gateway.authentication.sign_in(c, "web", PASSWORD))
    renewed = await front.request(lambda c: front.gateway.authentication.refresh(c, pair.tokens.refresh_token))
    front.token = renewed.access_token
    assert (await front.call("list", at("/"), 10)).entries == []
    assert installation.audited[1:] == [("refresh", None, "begun"), ("refresh", None, "done")]


async def test_rights_and_limits_are_kept(installation: Installation) -> None:
    front = installation.front_end
    await front.sign_in("reader")
    for refused in (
        front.call("read", at("/a")),
        front.call("store", at("/a"), chunks(b"x")),
        front.call("make_folder", at("/a")),
        front.call("delete", at("/a")),
    ):
        with pytest.raises(Forbidden):
            await refused
    await front.sign_in("web")
    with pytest.raises(TooLarge):
        await front.call("store", at("/a"), chunks(b"01234", b"567890"))
    with pytest.raises(IsAFolder):
        await front.call("store", at("/"), chunks(b"x"))
    assert list(installation.files.iterdir()) == []
    assert [line for line in installation.audited if line[0] != "sign-in"] == [
        ("upload", "/", "forbidden"),
        ("mkdir", "/a", "forbidden"),
        ("delete", "/a", "forbidden"),
        ("upload", "/a", "too-large"),
    ]


async def test_a_ticket_allows_one_download_and_nothing_else(installation: Installation) -> None:
    front = installation.front_end
    await front.sign_in("web")
    for name in ("/a", "/b"):
        await front.call("store", at(name), chunks(b"x"))
    ticket = await front.call("ticket", at("/a"))

    async def serve(context: RequestContext) -> None:
        actor = await front.gateway.authentication.with_ticket(context, ticket.text, at("/a"))
        operations = front.gateway.operations(actor)
        assert (await operations.files.stat_for_download(at("/a"))).size == 1
        for refused in (
            operations.files.list(at("/"), 10),
            operations.files.stat(at("/a")),
            operations.files.stat_for_download(at("/b")),
            operations.files.read(at("/b")),
            operations.files.ticket(at("/b")),
            operations.files.store(at("/c"), chunks(b"x")),
            operations.files.make_folder(at("/c")),
            operations.files.copy(at("/a"), at("/c")),
            operations.files.move(at("/a"), at("/c")),
            operations.files.delete(at("/a")),
            front.gateway.authentication.sign_out(actor),
        ):
            with pytest.raises(Forbidden, match="ticket"):
                await refused

    await front.request(serve)
    assert sorted(file.name for file in installation.files.iterdir()) == ["a", "b"]


async def test_a_file_that_is_announced_too_large_is_not_read(installation: Installation) -> None:
    await installation.front_end.sign_in("web")
    content = chunks(b"x")
    with pytest.raises(TooLarge):
        await installation.front_end.call("store", at("/a"), content, size=11)
    assert await anext(content) == b"x"


async def test_an_upload_does_not_exempt_later_operations_from_admission(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = installation.front_end
    await front.sign_in("web")
    monkeypatch.setattr(request_context, "MAX_WAITING", 0)

    async def serve(context: RequestContext) -> None:
        operations = await front.operations(context)
        await operations.files.store(at("/a"), chunks(b"x"))
        with pytest.raises(Unavailable):
            await operations.files.stat(at("/a"))

    await front.request(serve)


async def test_several_files_are_one_upload(installation: Installation) -> None:
    front = installation.front_end
    await front.sign_in("web")

    async def serve(context: RequestContext) -> None:
        operations = await front.operations(context)
        async with operations.files.upload(at("/in")) as upload:
            await upload.check_folder()
            upload.announce(20)
            await upload.store("a", chunks(b"1"))
            with pytest.raises(InvalidRequest, match="twice"):
                await upload.store("a", chunks(b"2"))
            assert ([entry.name for entry in upload.stored], upload.failed) == (["a"], ["a"])

    await front.request(serve)
    assert (installation.files / "in" / "a").read_bytes() == b"1"


async def test_conditions_digests_and_receipts(installation: Installation) -> None:
    front = installation.front_end
    await front.sign_in("web")
    moment = datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    first = await front.call("store", at("/a"), chunks(b"1"), modified=moment)
    assert first.modified == moment
    with pytest.raises(Changed):
        await front.call("store", at("/a"), chunks(b"2"), if_match="other")
    await front.call("store", at("/a"), chunks(b"2"), if_match=first.etag)

    async def serve(context: RequestContext) -> None:
        operations = await front.operations(context)
        digest = hashlib.sha256(b"3").digest()
        async with operations.files.upload(at("/"), digest=True) as upload:
            assert await upload.find("b") is None
            wrong = [ExpectedDigest("a header", "sha-256", hashlib.sha256(b"?").digest())]
            with pytest.raises(DigestMismatch, match="a header"):
                await upload.store("b", chunks(b"3"), expected=wrong)
            entry = await upload.store("c", chunks(b"3"), expected=[ExpectedDigest("", "sha-256", digest)])
            assert upload.digests == {"c": digest}
        assert await operations.files.digests(at("/"), [entry]) == {"c": digest}
        assert await operations.files.digest(at("/c"), entry) == digest
        receipt = operations.files.receipt(at("/c"), entry, digest)
        assert receipt.text.count(".") == 2

    await front.request(serve)
    assert sorted(file.name for file in installation.files.iterdir()) == ["a", "c"]


async def test_a_user_who_is_disabled_during_an_upload_stores_nothing(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.operations.actors.actor.TRUSTED_SECONDS", -1.0)
    await installation.front_end.sign_in("web")

    async def disabled_meanwhile() -> AsyncIterator[bytes]:
        yield b"x"
        await installation.users.change("web", disabled=True)

    with pytest.raises(NotSignedIn):
        await installation.front_end.call("store", at("/a"), disabled_meanwhile())
    assert list(installation.files.iterdir()) == []
    assert installation.audited[-1] == ("upload", "/a", "not-signed-in")


async def test_what_breaks_off_is_not_stored(installation: Installation) -> None:
    await installation.front_end.sign_in("web")

    async def broken() -> AsyncIterator[bytes]:
        yield b"x"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await installation.front_end.call("store", at("/a"), broken())
    assert list(installation.files.iterdir()) == []
    assert installation.audited[-1] == ("upload", "/a", "internal")


async def test_too_many_requests_for_one_storage_are_refused(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_context, "MAX_WAITING", 1)
    front = installation.front_end
    await front.sign_in("web")

    async def serve(context: RequestContext) -> None:
        operations = await front.operations(context)
        await operations.files.list(at("/"), 10)
        with pytest.raises(Unavailable):
            await front.call("list", at("/"), 10)
        await front.call("store", at("/a"), chunks(b"x"))  # waits for its own client
        context.release()  # the answer begins
        await front.call("list", at("/"), 10)

    await front.request(serve)
    for _ in range(3):
        await front.call("stat", at("/a"))  # every request has given its slot back


@pytest.mark.parametrize("ending", ["the client hangs up", "the gateway stops"])
@pytest.mark.parametrize("operation", ["copy", "move", "delete"])
async def test_long_work_ends_early(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, operation: str, ending: str
) -> None:
    front = installation.front_end
    await front.sign_in("web")
    begun = asyncio.Event()

    async def endless(*_: Any, **__: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    (installation.files / "tree").mkdir(exist_ok=True)
    monkeypatch.setattr(LocalProvider, "move_to_trash" if operation == "delete" else operation, endless)
    arguments: dict[str, Any] = {"recursive": True} if operation == "delete" else {"target": at("/new")}
    work = asyncio.create_task(front.call(operation, at("/tree"), **arguments))
    await begun.wait()
    if ending == "the client hangs up":
        front.client_gone.set()
    else:
        installation.long_work.stop()
    with pytest.raises(PorticoError) as caught:
        await work
    if ending == "the client hangs up":
        assert isinstance(caught.value, ChangeAbandoned)
    outcome = "interrupted" if ending == "the client hangs up" else "unavailable"
    assert installation.audited[-2:] == [(operation, "/tree", "begun"), (operation, "/tree", outcome)]


def test_nothing_of_http_is_loaded() -> None:
    code = (
        "import sys, portico.server.composition\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] == 'starlette' or m.startswith('portico.api')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


async def test_a_job_holds_its_place_until_it_is_done(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = installation.front_end
    await front.sign_in("web")
    await front.call("store", at("/tree/file"), chunks(b"content"))
    genuine, go_on = LocalProvider.copy, asyncio.Event()

    async def halting(*arguments: Any, **options: Any) -> None:
        await go_on.wait()
        await genuine(*arguments, **options)

    async def begin(context: RequestContext) -> Any:
        jobs = (await front.operations(context)).jobs

        async def copy(operations: Operations) -> Any:
            return await operations.files.copy(at("/tree"), at("/copy"))

        return await jobs.run("copy", at("/tree"), at("/copy"), copy, wait=0)

    async def look(context: RequestContext) -> Any:
        return await (await front.operations(context)).jobs.get(job.id)

    monkeypatch.setattr(LocalProvider, "copy", halting)
    monkeypatch.setattr(request_context, "MAX_WAITING", 1)
    job = await front.request(begin)
    assert job.state == "running"
    with pytest.raises(Unavailable):
        await front.call("list", at("/"), 1)
    go_on.set()
    async with asyncio.timeout(60):
        while (job := await front.request(look)).state == "running":
            await asyncio.sleep(0.01)
    assert (job.state, job.result) == ("done", at("/copy"))
    await front.call("list", at("/"), 1)
    assert installation.audited[-1] == ("copy", "/tree", "done")
