"""A gateway in this process: the whole application, driven by `httpx2` or by messages of our own making."""

import asyncio
import pathlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from portico.accounts.connections import Connections
from portico.accounts.mounts import Mounts, owner_of
from portico.accounts.passwords import Passwords
from portico.accounts.sessions import Sessions
from portico.accounts.users import Users
from portico.accounts.vault import SecretKey, Vault
from portico.api.requests import FILESYSTEM
from portico.api.services import Services
from portico.model.paths import Path
from portico.model.reach import MountRule
from portico.model.rights import parse_rights
from portico.observability.logs import RequestLog, discard
from portico.observability.metrics import Metrics
from portico.server.application import create_app
from portico.settings.settings import Settings
from portico.store.database import Database

PASSWORD = "correct horse"
CLIENT = ("portico-web", "not-confidential")
BOUNDARY = "frontier"
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"

Headers = Mapping[str, str]
Step = bytes | ConnectionError | Callable[[], Awaitable[None]]
"""What a client of ours does next: send bytes, hang up, or something in between."""


@dataclass
class Answer:
    """What came back for a request of our own making."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    taken: int = 0
    """How many bytes of the body the gateway took in before it answered."""

    def header(self, name: str) -> str:
        (value,) = [value for key, value in self.headers if key == name.lower()]
        return value

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Gateway:
    app: ASGIApp
    client: httpx2.AsyncClient
    services: Services
    metrics: Metrics
    stop: Callable[[], None]
    sessions: Sessions
    users: Users
    mounts: Mounts
    connections: Connections
    settings: Settings
    root: str = "web"
    """The root folder of the user `web`."""

    @property
    def files(self) -> pathlib.Path:
        """The root folder, on disk."""
        return self.settings.files_folder / self.root

    @property
    def left_over(self) -> list[str]:
        """What lies in the staging folder."""
        staging = self.settings.files_folder / ".portico~staging"
        return [each.name for each in staging.iterdir()] if staging.exists() else []

    def put(self, path: str, content: bytes = b"content") -> pathlib.Path:
        """Write a file into the store behind the gateway's back."""
        file = self.files / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    async def mount(self, path: str, rights: str, user: str = "web") -> None:
        """Give a folder of the user's root rights of its own."""
        rule = MountRule(Path.parse(path), "local", f"/{self.root}{path}", parse_rights(rights))
        await self.mounts.add(owner_of(user), rule)

    async def sign_in(self, name: str = "web") -> dict[str, str]:
        """The header of a fresh session, without the work of a password."""
        pair = await self.sessions.issue(await self.users.get(name))
        return {"Authorization": f"Bearer {pair.access_token}"}

    async def login(self, **fields: str) -> httpx2.Response:
        form = {"grant_type": "password", "username": "web", "password": PASSWORD} | fields
        return await self.client.post("/backend/login", data=form, auth=CLIENT)

    async def call(
        self, method: str, path: str = "", *, user: str = "web", headers: Headers | None = None, **options: Any
    ) -> httpx2.Response:
        """Ask for something below the file system's address."""
        credentials = await self.sign_in(user)
        return await self.client.request(method, address(path), headers={**credentials, **(headers or {})}, **options)

    async def list(self, path: str = "", user: str = "web", **parameters: Any) -> httpx2.Response:
        return await self.call("GET", path, user=user, params=parameters)

    async def upload(
        self, path: str, files: Mapping[str, bytes], user: str = "web", **parameters: str
    ) -> httpx2.Response:
        form = [("data", (name, content)) for name, content in files.items()]
        return await self.call("POST", path, user=user, files=form, params=parameters)

    async def send_form(
        self, body: bytes, path: str = "", *, content_type: str = MULTIPART, user: str = "web"
    ) -> httpx2.Response:
        """Upload a body that was written by hand."""
        return await self.call("POST", path, user=user, headers={"Content-Type": content_type}, content=body)

    async def raw(
        self,
        method: str = "GET",
        target: bytes = FILESYSTEM.encode(),
        headers: Iterable[tuple[str, str]] = (),
        steps: Iterable[Step] = (),
        *,
        peer: str = "127.0.0.1",
        host: str | None = "gateway.test",
    ) -> Answer:
        """Send a request as a server would hand it on, however wrong it is."""
        if host is not None:
            headers = [("Host", host), *headers]
        raw_path, _, query = target.partition(b"?")
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": raw_path.decode("latin-1"),
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
            "client": (peer, 50000),
            "server": ("gateway.test", 80),
        }
        answer = Answer()
        remaining = iter([*steps, b""])
        answered = asyncio.Event()

        async def receive() -> Message:
            for step in remaining:
                if isinstance(step, ConnectionError):
                    answered.set()
                    break
                if isinstance(step, bytes):
                    answer.taken += len(step)
                    return {"type": "http.request", "body": step, "more_body": bool(step)}
                await step()
            await answered.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                assert not answer.status, "the answer began twice"
                answer.status = message["status"]
                answer.headers = [
                    (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in message["headers"]
                ]
            else:
                answer.body += message.get("body", b"")
                if not message.get("more_body", False):
                    answered.set()

        await self.app(scope, receive, send)
        return answer


@asynccontextmanager
async def running(
    chosen: Settings, *, peer: str = "127.0.0.1", request_log: RequestLog = discard
) -> AsyncIterator[Gateway]:
    """The gateway of these settings, from its start-up to its end."""
    app = create_app(chosen, request_log)
    async with lifespan(app) as state:
        services: Services = state["services"].get()

        async def stateful(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, "state": dict(state)}, receive, send)

        database, passwords = Database(chosen.database_url), Passwords()
        transport = httpx2.ASGITransport(stateful, client=(peer, 50000))
        async with httpx2.AsyncClient(transport=transport, base_url="http://gateway.test") as client:
            yield Gateway(
                stateful,
                client,
                services,
                app._metrics,
                app.on_stop,
                Sessions(database, token_lifetime=chosen.token_lifetime, refresh_lifetime=chosen.refresh_lifetime),
                Users(database, passwords),
                Mounts(database),
                Connections(database, Vault(SecretKey.load(chosen.secret_key_file, {}))),
                chosen,
            )
        passwords.close()
        await database.close()


@asynccontextmanager
async def lifespan(app: ASGIApp) -> AsyncIterator[dict[str, Any]]:
    """Start the application up and shut it down, as a server does; what it leaves in the state comes out."""
    state: dict[str, Any] = {}
    incoming: asyncio.Queue[Message] = asyncio.Queue()
    outgoing: asyncio.Queue[Message] = asyncio.Queue()
    task = asyncio.ensure_future(
        app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": state}, incoming.get, outgoing.put)
    )
    await incoming.put({"type": "lifespan.startup"})
    started = await outgoing.get()
    assert started == {"type": "lifespan.startup.complete"}, started
    try:
        yield state
    finally:
        await incoming.put({"type": "lifespan.shutdown"})
        stopped = await outgoing.get()
        await task
        assert stopped == {"type": "lifespan.shutdown.complete"}, stopped


def address(path: str) -> str:
    return FILESYSTEM + (f"/{quote(path)}" if path else "")


def part(content: bytes, disposition: str = 'form-data; name="data"; filename="a.txt"', *more: str) -> bytes:
    """One part of a form, with the boundary before it."""
    lines = [f"--{BOUNDARY}", f"Content-Disposition: {disposition}", *more, "", ""]
    return "\r\n".join(lines).encode() + content + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def named(name: str, content: bytes = b"content") -> bytes:
    return part(content, f'form-data; name="data"; filename="{name}"')
