"""Every route by a user, a key, a ticket, a guest and a client without credentials: what each is answered.

To add a route, add its row to `ROWS`: the status for each of `ACTORS`, and what the request needs.
"""

import pathlib
import shutil
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import msgspec
import pytest
import pytest_asyncio

from portico.api.account import ACCOUNT, INVITATION, INVITATION_PASSWORD, KEYS, SESSIONS
from portico.api.account import PASSWORD as PASSWORD_ADDRESS
from portico.api.jobs import JOBS
from portico.api.openapi import document
from portico.api.requests import FILESYSTEM
from portico.api.rewinds import REWINDS
from portico.api.routes import ROUTES, ReadAction, WriteAction
from portico.api.shares import LINKS, SHARE_SESSIONS
from portico.api.trash import TRASH
from portico.api.tus import MEDIA_TYPE, UPLOADS

from .conftest import never_sweep, settings_of
from .gateways import CLIENT, PASSWORD, Gateway, address, running
from .shares import SHARER, Shared, metadata, share

ACTORS = ("user", "key", "ticket", "guest", "nobody")
FILES = f"{FILESYSTEM}/{{path}}"
TUS = {"Tus-Resumable": "1.0.0"}


class Row(msgspec.Struct, frozen=True):
    statuses: tuple[int, ...]
    """For each of the actors."""
    path: str = "in/a"
    """Of the file system."""
    options: dict[str, Any] = msgspec.field(default_factory=dict)


def row(*statuses: int, path: str = "in/a", **options: Any) -> Row:
    return Row(statuses, path, options)


def everybody(status: int, **options: Any) -> Row:
    """Needs no credentials."""
    return row(*[status] * len(ACTORS), **options)


TO = {"target": "/in/other", "onConflict": "rename"}
ROWS = {
    #                      user  key  ticket guest nobody
    f"GET {FILES}": row(200, 200, 200, 200, 401),
    f"GET {FILES}?action=LIST": row(200, 200, 400, 200, 401, path="in"),
    f"GET {FILES}?action=DOWNLOAD": row(200, 200, 200, 200, 401),
    f"GET {FILES}?action=STAT": row(200, 200, 400, 200, 401),
    f"GET {FILES}?action=SEARCH": row(200, 200, 400, 200, 401, path="in"),
    f"GET {FILES}?action=ACTIVITY": row(200, 200, 400, 403, 401),
    f"GET {FILES}?action=THUMBNAIL": row(404, 404, 400, 404, 401),  # of a text
    f"GET {FILES}?action=ZIP": row(200, 200, 200, 200, 401, path="in"),
    f"POST {FILES}": row(204, 204, 401, 204, 401, path="in", files=[("data", ("form", b"x"))]),
    f"POST {FILES}?action=MKDIR": row(201, 201, 401, 201, 401, path="in/new"),
    f"POST {FILES}?action=MOVE": row(201, 201, 401, 403, 401, params=TO),
    f"POST {FILES}?action=COPY": row(201, 201, 401, 403, 401, params=TO),
    f"POST {FILES}?action=TICKET": row(200, 403, 401, 200, 401),
    f"POST {FILES}?action=ZIP": row(200, 200, 200, 200, 401, path="in", json={"paths": ["a"]}),
    f"PUT {FILES}": row(201, 201, 401, 201, 401, path="in/new", content=b"x"),
    f"DELETE {FILES}": row(204, 204, 401, 403, 401),
    f"OPTIONS {UPLOADS}": everybody(204),
    f"POST {UPLOADS}": row(
        *(201, 201, 401, 201, 401), headers={**TUS, "Upload-Length": "1", "Upload-Metadata": metadata(filename="tus")}
    ),
    f"OPTIONS {UPLOADS}/{{id}}": everybody(204),
    f"HEAD {UPLOADS}/{{id}}": row(200, 200, 401, 404, 401, headers=TUS),
    f"PATCH {UPLOADS}/{{id}}": row(
        *(204, 204, 401, 404, 401), headers={**TUS, "Upload-Offset": "0", "Content-Type": MEDIA_TYPE}, content=b"x"
    ),
    f"POST {UPLOADS}/{{id}}": row(*(200, 200, 401, 404, 401), headers={**TUS, "X-HTTP-Method-Override": "HEAD"}),
    f"DELETE {UPLOADS}/{{id}}": row(204, 204, 401, 404, 401, headers=TUS),
    f"GET {TRASH}": row(200, 200, 401, 403, 401),
    f"DELETE {TRASH}": row(204, 204, 401, 403, 401),
    f"POST {TRASH}/{{id}}": row(201, 201, 401, 403, 401, params={"action": "RESTORE"}),
    f"DELETE {TRASH}/{{id}}": row(204, 204, 401, 403, 401),
    f"GET {JOBS}": row(200, 200, 401, 403, 401),
    f"GET {JOBS}/{{id}}": row(404, 404, 401, 403, 401),  # there is no such job
    f"DELETE {JOBS}/{{id}}": row(404, 404, 401, 403, 401),
    f"POST {REWINDS}": row(200, 403, 401, 403, 401, json={"since": "2026-11-14T09:30:00Z", "dryRun": True}),
    f"GET {REWINDS}/{{id}}": row(404, 403, 401, 403, 401),  # there is no such rewind
    f"GET {LINKS}": row(200, 200, 401, 403, 401),
    f"POST {LINKS}": row(201, 201, 401, 403, 401, json={"path": "/in"}),
    f"GET {LINKS}/{{id}}": row(200, 200, 401, 403, 401),
    f"PATCH {LINKS}/{{id}}": row(200, 200, 401, 403, 401, json={"title": "x"}),
    f"DELETE {LINKS}/{{id}}": row(204, 204, 401, 403, 401),
    f"POST {LINKS}/{{id}}/address": row(201, 201, 401, 403, 401),
    f"GET {LINKS}/{{id}}/accesses": row(200, 200, 401, 403, 401),
    f"GET {ACCOUNT}": row(200, 403, 401, 403, 401),
    f"POST {PASSWORD_ADDRESS}": row(
        *(204, 403, 401, 403, 401), json={"oldPassword": PASSWORD, "newPassword": "another horse battery"}
    ),
    f"GET {SESSIONS}": row(200, 403, 401, 403, 401),
    f"DELETE {SESSIONS}": row(204, 403, 401, 403, 401),
    f"DELETE {SESSIONS}/{{id}}": row(204, 403, 401, 403, 401),
    f"GET {KEYS}": row(200, 403, 401, 403, 401),
    f"POST {KEYS}": row(201, 403, 401, 403, 401, json={"name": "another"}),
    f"DELETE {KEYS}/{{id}}": row(204, 403, 401, 403, 401),
    "GET /backend/session": row(200, 200, 401, 403, 401),
    "POST /backend/logout": row(204, 403, 401, 403, 401),
    # The credential is in the body.
    "POST /backend/login": row(
        *(200, 200, 400, 200, 200),  # it takes no query
        auth=CLIENT,
        data={"grant_type": "password", "username": "web", "password": PASSWORD},
    ),
    f"POST {SHARE_SESSIONS}": everybody(201, json={"link": "{link}"}),
    f"POST {INVITATION}": everybody(404, json={"token": "unknown"}),
    f"POST {INVITATION_PASSWORD}": everybody(404, json={"token": "unknown", "password": "another horse"}),
    "GET /backend/1.0.0/receipts/key": everybody(200),
    "GET /backend/openapi.json": everybody(200),
    "GET /backend/docs": everybody(200),
    "GET /healthz": everybody(200),
    "GET /readyz": everybody(200),
    "GET /": everybody(200),
    "GET /invite": everybody(200),
    "GET /config.js": everybody(200),
    "GET /portico.css": everybody(200),
    "GET /favicon.ico": everybody(200),
}
"""`HEAD` has the row of `GET`."""


def served() -> Iterator[str]:
    """Every route: those of the table that are for the page, and all that the OpenAPI document describes."""
    found = {(path, method) for path, methods in ROUTES.items() for method in methods}
    for path, item in document()["paths"].items():
        found |= {(path, method.upper()) for method in item if method != "parameters"}
    actions = {"GET": ReadAction, "POST": WriteAction}
    for path, method in found:
        if path == FILESYSTEM or (method == "HEAD" and (path, "GET") in found):
            continue
        yield f"{method} {path}"
        if path == FILES:
            yield from (f"{method} {path}?action={action}" for action in actions.get(method, ()))


def test_every_route_has_a_row() -> None:
    assert sorted(served()) == sorted(ROWS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(first_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    home = tmp_path_factory.mktemp("routes") / "home"
    shutil.copytree(first_home, home)
    chosen = settings_of(home)
    (chosen.files_folder / "web" / "in").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("portico.server.composition._repeat", never_sweep)
        async with running(chosen) as opened:
            yield opened


class Things:
    """What the routes are about. All of it belongs to the user."""

    def __init__(self, gateway: Gateway, link: Shared) -> None:
        self.gateway = gateway
        self.link = link

    async def headers(self) -> dict[str, str]:
        return await self.gateway.sign_in(SHARER)

    async def ask(self, method: str, url: str, **options: Any) -> httpx2.Response:
        options["headers"] = {**await self.headers(), **options.get("headers", {})}
        answer = await self.gateway.client.request(method, url, **options)
        assert answer.is_success, answer.text
        return answer

    async def id(self, above: str) -> str:
        """Of a new one."""
        match above:
            case _ if above == UPLOADS:
                new = {**TUS, "Upload-Length": "5", "Upload-Metadata": metadata(filename="begun")}
                location: str = (await self.ask("POST", UPLOADS, headers=new)).headers["Location"]
                return location.rpartition("/")[2]
            case _ if above == TRASH:
                self.gateway.put("in/deleted")
                return str((await self.ask("DELETE", address("in/deleted"))).headers["X-Trash-Id"])
            case _ if above == LINKS:
                return str((await share(self.gateway, "/in")).body["id"])
            case _ if above == SESSIONS:
                await self.headers()
                return str((await self.ask("GET", SESSIONS)).json()["content"][0]["id"])
            case _ if above == KEYS:
                return str((await self.key())["id"])
        return "0" * 32

    async def key(self) -> dict[str, Any]:
        made: dict[str, Any] = (await self.ask("POST", KEYS, json={"name": "key"})).json()
        return made

    async def credentials(self, who: str, path: str) -> tuple[dict[str, str], dict[str, str]]:
        """Headers and parameters."""
        match who:
            case "user":
                return await self.headers(), {}
            case "key":
                return {"Authorization": f"Bearer {(await self.key())['key']}"}, {}
            case "ticket":
                asked = {"action": "TICKET", "recursive": "true"}
                answer = await self.ask("POST", address(path), params=asked)
                return {}, {"ticket": answer.json()["ticket"]}
            case "guest":
                return (await self.link.guest()).header, {}
        return {}, {}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def things(gateway: Gateway) -> Things:
    return Things(gateway, await share(gateway, "/", "both"))


async def status_of(things: Things, who: str, route: str) -> int:
    found, gateway = ROWS.get(route) or ROWS[route.replace("HEAD", "GET")], things.gateway
    shutil.rmtree(gateway.files / "in")
    gateway.put("in/a")
    exists = (gateway.files / found.path).exists()
    headers, parameters = await things.credentials(who, found.path if exists else "in/a")
    method, _, url = route.partition(" ")
    url, _, action = url.partition("?action=")
    if url == FILES:
        url = address(found.path)
    above, is_one, rest = url.partition("/{id}")
    if is_one:
        url = f"{above}/{await things.id(above)}{rest}"
    options = dict(found.options)
    if "link" in options.get("json", {}):
        options["json"] = {"link": things.link.token}
    options["headers"] = {**headers, **options.get("headers", {})}
    options["params"] = {**parameters, **options.get("params", {})} | ({"action": action} if action else {})
    answer = await gateway.client.request(method, url, **options)
    return answer.status_code


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("route", ROWS)
async def test_each_actor_is_answered_as_the_table_says(things: Things, route: str) -> None:
    expected = dict(zip(ACTORS, ROWS[route].statuses, strict=True))
    assert {who: await status_of(things, who, route) for who in ACTORS} == expected
    if route.startswith("GET "):
        head = route.replace("GET", "HEAD", 1)
        assert {who: await status_of(things, who, head) for who in ACTORS} == expected
