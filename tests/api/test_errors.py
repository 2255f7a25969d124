"""Every row of the table of errors, as far as the local storage can come to it, and the promise about all of them."""

import asyncio
import errno
import inspect
import io
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

import httpx2
import pytest

from portico.accounts.sessions import Sessions
from portico.api import middleware, request_body
from portico.api.problems import PROBLEM_TYPES
from portico.model import errors
from portico.model.errors import PorticoError, ProviderFailed, ProviderRefused, ProviderTimeout, ProviderUnavailable
from portico.providers.local.provider import LocalProvider

from .conftest import OWN_GATEWAY, SHARES_GATEWAY, OpenGateway
from .gateways import MULTIPART, Gateway, address, form, named

pytestmark = SHARES_GATEWAY

CANARY = "canary-secret-9f2c"
FIELDS = {"type", "title", "status", "detail", "instance", "code", "requestId"}

Request = Callable[[Gateway, pytest.MonkeyPatch], Awaitable[httpx2.Response]]


def assert_problem(response: httpx2.Response, status: int, code: str, *more: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.headers["Cache-Control"] == "no-store"
    body: dict[str, Any] = response.json()
    assert body.keys() == FIELDS | set(more)
    assert (body["status"], body["code"], body["title"]) == (status, code, PROBLEM_TYPES[code].title)
    assert body["type"] == f"/backend/docs#{code}"
    assert body["requestId"] == response.headers["X-Request-Id"]
    assert body["instance"] == response.request.url.raw_path.partition(b"?")[0].decode()
    assert body["detail"].endswith(".")
    assert "\n" not in body["detail"]
    return body


# One request for each


def asking(method: str, path: str = "", *, user: str = "web", **options: Any) -> Request:
    async def ask(gateway: Gateway, _: pytest.MonkeyPatch) -> httpx2.Response:
        return await gateway.call(method, path, user=user, **options)

    return ask


def uploading(path: str, *names: str, user: str = "web", **parameters: str) -> Request:
    async def ask(gateway: Gateway, _: pytest.MonkeyPatch) -> httpx2.Response:
        return await gateway.upload(path, dict.fromkeys(names, b"x"), user, **parameters)

    return ask


def sending(body: bytes, **headers: str) -> Request:
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return asking("POST", headers={"Content-Type": MULTIPART} | headers, content=body)


async def no_token(gateway: Gateway, _: pytest.MonkeyPatch) -> httpx2.Response:
    return await gateway.client.get(address(""))


async def no_such_route(gateway: Gateway, _: pytest.MonkeyPatch) -> httpx2.Response:
    return await gateway.client.get("/backend/2.0.0/filesystem")


async def gone_storage(gateway: Gateway, _: pytest.MonkeyPatch) -> httpx2.Response:
    shutil.rmtree(gateway.settings.files_folder)
    return await gateway.list("folder")


async def full_disk(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> httpx2.Response:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "writev", full)
    return await gateway.upload("", {"new": b"x"})


async def refused_by_the_system(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> httpx2.Response:
    def read_only(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "rmdir", read_only)
    return await gateway.call("DELETE", "empty")


async def broken_disk(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> httpx2.Response:
    def broken(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "rmdir", broken)
    return await gateway.call("DELETE", "empty")


async def gone_database(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> httpx2.Response:
    (gateway.settings.home / "portico.db").write_bytes(b"no database" * 1000)
    for suffix in ("-wal", "-shm"):
        (gateway.settings.home / f"portico.db{suffix}").unlink(missing_ok=True)
    return await gateway.client.get("/backend/session", headers={"Authorization": "Bearer some"})


async def stalled(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> httpx2.Response:
    monkeypatch.setattr(request_body, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(middleware, "DRAINED_SECONDS", 0.05)

    async def body() -> AsyncIterator[bytes]:
        yield form(named("new"))[:-20]
        await asyncio.Event().wait()

    return await gateway.call("POST", headers={"Content-Type": MULTIPART}, content=body())


async def bug(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> httpx2.Response:
    async def broken(*_: object) -> NoReturn:
        raise ZeroDivisionError(CANARY)

    monkeypatch.setattr(Sessions, "session", broken)
    return await gateway.list()


HEADERS = {
    401: ("WWW-Authenticate", 'Bearer realm="portico"'),
    503: ("Retry-After", None),
    416: ("Content-Range", "bytes */7"),
}

CASES: list[tuple[str, int, str, Request]] = [
    ("malformed query", 400, "invalid-request", asking("GET", params={"size": "0"})),
    ("malformed body", 400, "invalid-request stored failed", sending(form(named("new"))[:-20])),
    ("malformed header", 400, "invalid-request", sending(b"", Content_Type="multipart/form-data")),
    ("unknown action", 400, "invalid-request", asking("GET", params={"action": "X"})),
    ("repeated parameter", 400, "invalid-request", asking("GET", params={"size": ["1", "2"]})),
    ("path", 400, "invalid-path", asking("GET", "a\\b")),
    ("target", 400, "invalid-path", asking("POST", "file", params={"action": "COPY", "target": "/../x"})),
    ("cursor", 400, "invalid-cursor", asking("GET", params={"cursor": "x" * 30})),
    ("cursor of a gone folder", 400, "invalid-cursor", asking("GET", "gone", params={"cursor": "x"})),
    ("digest", 400, "digest-mismatch", asking("PUT", "file", headers={"Content-MD5": "A" * 22})),
    ("no token", 401, "not-signed-in", no_token),
    ("right", 403, "forbidden", asking("DELETE", "file", user="reader")),
    ("upload right", 403, "forbidden", uploading("", "new", user="reader")),
    ("file", 404, "not-found", asking("GET", "gone", params={"action": "DOWNLOAD"})),
    ("folder", 404, "not-found", asking("GET", "gone")),
    ("route", 404, "not-found", no_such_route),
    ("no thumbnail", 404, "no-thumbnail", asking("GET", "file", params={"action": "THUMBNAIL"})),
    ("method", 405, "method-not-allowed", asking("PATCH", "file")),
    ("client stopped", 408, "timeout stored failed", stalled),
    ("listing a file", 409, "not-a-folder", asking("GET", "file", params={"action": "LIST"})),
    ("uploading into a file", 409, "not-a-folder stored failed", uploading("file", "new")),
    ("downloading a folder", 409, "is-a-folder", asking("GET", "folder", params={"action": "DOWNLOAD"})),
    ("uploading onto a folder", 409, "is-a-folder stored failed", uploading("", "folder")),
    ("taken name", 409, "already-exists stored failed", uploading("", "file", onConflict="fail")),
    ("into itself", 409, "not-possible", asking("POST", "folder", params={"action": "COPY", "target": "/folder/x"})),
    ("moving the root", 409, "not-possible", asking("POST", params={"action": "MOVE", "target": "/x"})),
    ("deleting the root", 409, "not-possible", asking("DELETE", params={"recursive": "true"})),
    ("full folder", 409, "folder-not-empty", asking("DELETE", "folder")),
    ("If-Match", 412, "changed", asking("GET", "file", headers={"If-Match": '"other"'})),
    ("too many files", 413, "too-large stored failed", uploading("", *"abcdef")),
    ("too large a file", 413, "too-large stored failed", sending(form(named("new", b"x" * 101)))),
    ("long address", 414, "uri-too-long", asking("GET", "x" * 9000)),
    ("no form", 415, "unsupported-media-type", sending(b"x", Content_Type="text/plain")),
    ("content-coded", 415, "unsupported-media-type", sending(b"x", Content_Encoding="gzip")),
    ("range", 416, "range-not-satisfiable", asking("GET", "file", headers={"Range": "bytes=7-"})),
    ("storage folder is missing", 503, "provider-unavailable", gone_storage),
    ("storage folder is read-only", 502, "provider-refused", refused_by_the_system),
    ("disk is broken", 502, "provider-error", broken_disk),
    ("disk is full", 507, "storage-full stored failed", full_disk),
    ("database is gone", 503, "unavailable", gone_database),
    ("bug", 500, "internal", bug),
]

ELSEWHERE = {
    "checksum-mismatch": "tus",
    "offset-mismatch": "tus",
    "tus-version": "tus",
    "upload-taken-over": "tus",
    "more-needed": "test_shares",
    "limit-reached": "test_shares",
    "target-gone": "test_shares",
    "address-not-allowed": "below, and test_edge",
    "too-many-requests": "test_keys and test_account; the sign-in answers in the words of RFC 6749",
    "headers-too-large": "tests/faults: the HTTP server answers some of these itself",
    "provider-timeout": "below: a local folder has no deadline",
    "weak-password": "test_account",
    "wrong-password": "test_account and test_shares",
    "request-running": "test_idempotency",
    "idempotency-key-reused": "test_idempotency",
}


@pytest.mark.parametrize(("status", "words", "request_"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@OWN_GATEWAY
async def test_each_error_has_its_answer(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch, status: int, words: str, request_: Request
) -> None:
    gateway = await open_gateway(**{"upload.max-files": "5", "upload.max-file-size": "100"})
    gateway.put("file", b"content")
    gateway.put("folder/file")
    (gateway.files / "empty").mkdir()
    code, *more = words.split()
    response = await request_(gateway, monkeypatch)
    assert_problem(response, status, code, *more)
    name, value = HEADERS.get(status, ("X-Request-Id", None))
    assert response.headers[name] == (value or response.headers[name])
    assert ("Retry-After" in response.headers) == (status == 503)


@OWN_GATEWAY
async def test_a_head_has_the_code_in_a_header(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway()
    gateway.put("folder/file")
    for path, status, code in (("none", 404, "not-found"), ("folder", 409, "is-a-folder")):
        response = await gateway.call("HEAD", path, params={"action": "DOWNLOAD"})
        assert (response.status_code, response.headers["X-Error-Code"]) == (status, code)
        assert "X-Error-Code" not in (await gateway.call("GET", path)).headers


async def test_the_table_is_whole() -> None:
    assert {words.split()[0] for _, _, words, _ in CASES} | ELSEWHERE.keys() == PROBLEM_TYPES.keys()


@OWN_GATEWAY
async def test_an_address_that_is_not_allowed(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"security.allowed-addresses": "192.0.2.0/24"})
    assert_problem(await gateway.client.get(address("")), 403, "address-not-allowed")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", address("a"), "DELETE, GET, HEAD, POST, PUT"),
        ("OPTIONS", address(""), "DELETE, GET, HEAD, POST, PUT"),
        ("GET", "/backend/logout", "POST"),
        ("POST", "/backend/session", "GET, HEAD"),
        ("DELETE", "/", "GET, HEAD"),
        ("BREW", address("a"), "DELETE, GET, HEAD, POST, PUT"),
    ],
)
async def test_an_unknown_method_lists_the_known_ones(gateway: Gateway, method: str, path: str, allowed: str) -> None:
    response = await gateway.client.request(method, path)
    assert_problem(response, 405, "method-not-allowed")
    assert response.headers["Allow"] == allowed


async def test_every_error_has_a_kind() -> None:
    family = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, PorticoError)]
    assert {each.code for each in family} == PROBLEM_TYPES.keys()
    assert all(100 < kind.status < 600 and kind.title for kind in PROBLEM_TYPES.values())


async def test_a_bug_goes_to_the_log_with_its_trace_and_not_to_the_client(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    response = await bug(gateway, monkeypatch)
    body = assert_problem(response, 500, "internal")
    assert not any(word in response.text for word in (CANARY, "Traceback", "ZeroDivision", ".py"))
    (line,) = [line for line in log.getvalue().splitlines() if '"bug"' in line]
    assert all(word in line for word in (CANARY, "Traceback", "ZeroDivisionError", body["requestId"]))


async def test_a_shortage_of_memory_is_no_bug(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def short(*_: object) -> NoReturn:
        raise MemoryError

    monkeypatch.setattr(Sessions, "session", short)
    response = await gateway.list()
    assert_problem(response, 503, "unavailable")
    assert int(response.headers["Retry-After"]) >= 1


# What a provider says stays with us


FAILURES: list[tuple[type[PorticoError], int]] = [
    (ProviderRefused, 502),
    (ProviderFailed, 502),
    (ProviderUnavailable, 503),
    (ProviderTimeout, 504),
]


@pytest.mark.parametrize(("error", "status"), FAILURES)
@pytest.mark.parametrize(
    "operation", ["list_page", "stat", "read", "write", "make_folder", "delete", "move_to_trash", "copy", "move"]
)
async def test_what_a_provider_said_goes_to_the_log_only(
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
    log: io.StringIO,
    error: type[PorticoError],
    status: int,
    operation: str,
) -> None:
    async def failing(*_: object, **__: object) -> NoReturn:
        raise error("The storage is not well; tell the administrator.", cause=f"<Error>{CANARY}</Error>")

    requests: dict[str, Request] = {
        "list_page": asking("GET", "folder"),
        "stat": asking("GET", "file", params={"action": "STAT"}),
        "read": asking("GET", "file"),
        "write": uploading("", "new"),
        "make_folder": asking("POST", "new", params={"action": "MKDIR"}),
        "delete": asking("DELETE", "empty"),
        "move_to_trash": asking("DELETE", "file"),
        "copy": asking("POST", "file", params={"action": "COPY", "target": "/new"}),
        "move": asking("POST", "file", params={"action": "MOVE", "target": "/new"}),
    }
    gateway.put("file")
    (gateway.files / "empty").mkdir()
    monkeypatch.setattr(LocalProvider, operation, failing)
    response = await requests[operation](gateway, monkeypatch)
    body = assert_problem(response, status, error.code, *(("stored", "failed") if operation == "write" else ()))
    assert CANARY not in response.text + str(response.headers)
    assert any(CANARY in line and body["requestId"] in line for line in log.getvalue().splitlines())


async def test_a_provider_that_breaks_the_contract_is_a_bug_of_ours(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: object, **__: object) -> NoReturn:
        raise ConnectionResetError(f"https://storage.example/?sig={CANARY}")

    monkeypatch.setattr(LocalProvider, "list_page", failing)
    response = await gateway.list()
    assert_problem(response, 500, "internal")
    assert CANARY not in response.text
