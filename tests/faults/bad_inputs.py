"""Requests that no honest client sends, as bytes, and the answer that each of them deserves."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from ..gateways import FILES
from .raw_http import BOUNDARY, MULTIPART, form, get, head, post

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Stranger:
    """Who sends: with a good token, one that was logged out, and what a sign-in needs."""

    token: str
    ended: str
    client: str
    cursor: str
    """A good one, of the folder `folder`."""


@dataclass(frozen=True, slots=True)
class Bad:
    request: Callable[[Stranger], bytes]
    status: int
    code: str = ""
    """Empty where the HTTP server itself answers, without a body."""


def _login(fields: Mapping[str, str] | bytes | str, *headers: str, target: str = "/backend/login") -> Bad:
    body = fields if isinstance(fields, bytes) else (fields if isinstance(fields, str) else urlencode(fields)).encode()
    chosen = headers or ("Content-Type: application/x-www-form-urlencoded",)

    def request(who: Stranger) -> bytes:
        length = f"Content-Length: {len(body)}"
        return head("POST", target, "", f"Authorization: Basic {who.client}", length, *chosen) + body

    return Bad(request, 400, "invalid_request")


def _client(authorization: str) -> Bad:
    body = urlencode(GOOD).encode()
    lines = ("Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(body)}")
    return Bad(
        lambda _: head("POST", "/backend/login", "", f"Authorization: {authorization}", *lines) + body,
        401,
        "invalid_client",
    )


GOOD = {"grant_type": "password", "username": "nobody", "password": "wrong password"}


def _with(login: Bad, status: int, code: str) -> Bad:
    return Bad(login.request, status, code)


LOGIN: dict[str, Bad] = {
    "bad base64": _client("Basic !!!!"),
    "no colon": _client("Basic " + b64encode(b"nocolon").decode()),
    "no credentials of the client": _client("Bearer x"),
    "client in header and body": _login({**GOOD, "client_id": "a", "client_secret": "b"}),
    "repeated field": _login(urlencode(GOOD) + "&username=web"),
    "field in the query": _login(GOOD, target="/backend/login?username=web"),
    "json body": _login('{"grant_type": "password"}', "Content-Type: application/json"),
    "multipart body": _login(form("a", b"x"), MULTIPART.strip()),
    "no content type": _login(urlencode(GOOD), "X-Nothing: 1"),
    "content-coded body": _login(
        GOOD, "Content-Type: application/x-www-form-urlencoded", "Content-Encoding: identity", "Content-Encoding: gzip"
    ),
    "password of 1 MiB": _login({**GOOD, "password": "x" * MIB}),
    "password of 2 KiB": _with(_login({**GOOD, "password": "x" * 2048}), 400, "invalid_grant"),
    "nul in the name": _login({**GOOD, "username": "we\0b"}),
    "name of 1 KiB": _login({**GOOD, "username": "n" * 1024}),
    "a thousand fields": _login("&".join(f"f{n}=1" for n in range(1000))),
    "bytes that are no text": _login(b"username=\xff&password=\xff&grant_type=password"),
    "escapes that are no text": _login("grant_type=password&username=%ff&password=x"),
    "another grant": _with(_login({"grant_type": "client_credentials"}), 400, "unsupported_grant_type"),
    "empty body": _login(b""),
    "unknown refresh token": _with(
        _login({"grant_type": "refresh_token", "refresh_token": "x" * 64}), 400, "invalid_grant"
    ),
}


def _token(*lines: str, status: int = 401, code: str = "not-signed-in", query: str = "") -> Bad:
    return Bad(
        lambda who: get(
            f"{FILES}/{query}".format(token=who.token),
            "",
            *(line.format(token=who.token, ended=who.ended, client=who.client) for line in lines),
        ),
        status,
        code,
    )


TOKEN: dict[str, Bad] = {
    "no token": _token(),
    "altered token": _token("Authorization: Bearer {token}x"),
    "revoked token": _token("Authorization: Bearer {ended}"),
    "token of 64 KiB": _token("Authorization: Bearer " + "x" * 64 * 1024),
    "basic on a bearer route": _token("Authorization: Basic {client}"),
    "two tokens": _token(
        "Authorization: Bearer {token}", "Authorization: Bearer {token}", status=400, code="invalid-request"
    ),
    "token in the query": _token(query="?access_token={token}"),
    "token in the header and in the query": _token(
        "Authorization: Bearer {token}", query="?access_token={token}", status=400, code="invalid-request"
    ),
    "token in the header and, escaped, in the query": _token(
        "Authorization: Bearer {token}", query="?size=1&access%5Ftoken=x", status=400, code="invalid-request"
    ),
    "empty bearer": _token("Authorization: Bearer "),
    "token in another case": _token("Authorization: Bearer \xff\xfe"),
}


def _path(raw: str | bytes, status: int = 400, code: str = "invalid-path") -> Bad:
    target = raw if isinstance(raw, bytes) else raw.encode("latin-1")
    return Bad(lambda who: get(f"{FILES}/@", who.token).replace(b"/@ HTTP", b"/" + target + b" HTTP", 1), status, code)


PATH: dict[str, Bad] = {
    "dots": _path(".."),
    "dots below": _path("folder/../../x"),
    "encoded dots": _path("%2e%2e"),
    "dots and an encoded slash": _path("..%2fx"),
    "dots and an encoded backslash": _path("..%5cx"),
    "double-encoded dots": _path("%252e%252e", 404, "not-found"),
    "nul": _path("a%00b"),
    "overlong": _path("%c0%ae%c0%ae"),
    "overlong slash": _path("%c0%af"),
    "lone byte": _path("%ff"),
    "surrogate": _path("%ed%a0%80"),
    "double slash": _path("a//b"),
    "dot segment": _path("./a"),
    "absolute": _path("/etc/passwd"),
    "absolute, encoded": _path("%2fetc/passwd"),
    "drive letter": _path("C:%5cx"),
    "drive letter with a slash": _path("C:/x", 404, "not-found"),
    "full-width dots": _path("%ef%bc%8e%ef%bc%8e", 404, "not-found"),
    "line break": _path("a%0d%0aX-Injected:1"),
    "delete": _path("a%7f"),
    "300-byte segment": _path("n" * 300),
    "9 KiB": _path("n/" * 4608, 414, "uri-too-long"),
    "100 KiB": _path("n" * 100_000, 414, ""),
    "half an escape": _path("%2"),
    "staging": _path(".portico~staging/x"),
    "staging, encoded": _path("%2eportico%7estaging"),
    "line break in the line itself": _path(b"a\rb", 400, ""),
    "nul in the line itself": _path(b"a\0b", 400, ""),
    "blank in the line itself": _path(b"a b", 400, ""),
    "byte in the line itself": _path(b"a\xffb", 400, ""),
}


def _query(query: str, code: str = "invalid-request", folder: str = "") -> Bad:
    return Bad(lambda who: get(f"{FILES}/{folder}?{query.replace('CURSOR', who.cursor)}", who.token), 400, code)


QUERY: dict[str, Bad] = {
    "size 0": _query("size=0"),
    "size -1": _query("size=-1"),
    "size 1e3": _query("size=1e3"),
    "size in other digits": _query("size=%D9%A1"),
    "size twice": _query("size=1&size=2"),
    "unknown action": _query("action=NONSENSE"),
    "action of a POST": _query("action=MKDIR"),
    "cursor of garbage": _query("cursor=garbage", "invalid-cursor"),
    "empty cursor": _query("cursor=", "invalid-cursor"),
    "cursor of 7 KiB": _query("cursor=" + "x" * 7000, "invalid-cursor"),
    "cursor altered": _query("cursor=xCURSOR", "invalid-cursor", "folder"),
    "cursor of another folder": _query("cursor=CURSOR", "invalid-cursor"),
    "cursor of a folder that is gone": _query("cursor=CURSOR", "invalid-cursor", "gone"),
    "half an escape": _query("x=%f"),
    "no text": _query("x=%ff"),
    "a misspelt parameter": _query("Size=1"),
}


def _upload(body: bytes, status: int = 400, code: str = "invalid-request", *headers: str) -> Bad:
    return Bad(lambda who: post(who.token, body, "/", *headers), status, code)


def _typed(content_type: str, status: int = 400, code: str = "invalid-request", body: bytes = b"") -> Bad:
    length = f"Content-Length: {len(body)}"
    return Bad(
        lambda who: head("POST", f"{FILES}/", who.token, f"Content-Type: {content_type}", length) + body, status, code
    )


def _named(disposition: str, status: int = 400, code: str = "invalid-request") -> Bad:
    return _upload(form("a", b"x").replace(b'name="data"; filename="a"', disposition.encode()), status, code)


_OPEN = f"--{BOUNDARY}\r\n".encode()
_CLOSE = f"--{BOUNDARY}--\r\n".encode()
_PART = form("a", b"x").removesuffix(_CLOSE)

MULTIPARTS: dict[str, Bad] = {
    "no body": _upload(b""),
    "no part": _upload(_CLOSE),
    "no terminator": _upload(form("a", b"x" * 100).removesuffix(b"\r\n" + _CLOSE)),
    "cut in the boundary": _upload(form("a", b"x" * 100).removesuffix(b"b--\r\n")),
    "cut in a header": _upload(form("a", b"x")[:30]),
    "10,000 part headers": _upload(
        _OPEN + b"".join(b"X-%d: 1\r\n" % number for number in range(10_000)) + b"\r\nx\r\n" + _CLOSE
    ),
    "part header of 1 MiB": _upload(_OPEN + b"X: " + b"x" * MIB + b"\r\n\r\nx\r\n" + _CLOSE),
    "8 MiB preamble": _upload(b"x" * 8 * MIB + b"\r\n" + form("a", b"x")),
    "8 MiB of CR": _upload(b"\r" * 8 * MIB + b"\r\n" + form("a", b"x")),
    "8 MiB of CRLF--": _upload(b"\r\n--" * 2 * MIB + form("a", b"x")),
    "boundary over 70": _typed("multipart/form-data; boundary=" + "b" * 71),
    "boundary of odd characters": _typed('multipart/form-data; boundary="b\xffb"'),
    "boundary twice": _typed("multipart/form-data; boundary=a; boundary=b"),
    "no boundary": _typed("multipart/form-data"),
    "empty boundary": _typed("multipart/form-data; boundary="),
    "content type of 64 KiB": _typed("multipart/form-data; boundary=b;" + " x=y;" * 13_000),
    "another type": _typed("application/json", 415, "unsupported-media-type", b"{}"),
    "another multipart": _typed("multipart/mixed; boundary=b", 415, "unsupported-media-type"),
    "content-coded": _upload(form("a", b"x"), 415, "unsupported-media-type", "Content-Encoding: gzip"),
    "content-coded behind a plain coding": _upload(
        form("a", b"x"), 415, "unsupported-media-type", "Content-Encoding: identity", "Content-Encoding: gzip"
    ),
    "content-coded twice in a line": _upload(
        form("a", b"x"), 415, "unsupported-media-type", "Content-Encoding: identity, gzip"
    ),
    "two content types": _upload(form("a", b"x"), 400, "invalid-request", "Content-Type: text/plain"),
    "a plain field": _named('name="data"'),
    "a huge plain field": _upload(_OPEN + b'Content-Disposition: form-data; name="x"\r\n\r\n' + b"x" * 8 * MIB),
    "another name": _named('name="other"; filename="a"'),
    "filename with a slash": _named('name="data"; filename="a/b"', 400, "invalid-path"),
    "filename with a backslash": _named('name="data"; filename="..\\\\b"', 400, "invalid-path"),
    "filename of dots": _named('name="data"; filename=".."', 400, "invalid-path"),
    "empty filename": _named('name="data"; filename=""'),
    "filename with a line break": _named('name="data"; filename="a%0D%0Ab"', 400, "invalid-path"),
    "filename of 300 bytes": _named(f'name="data"; filename="{"n" * 300}"', 400, "invalid-path"),
    "filename of ours": _named('name="data"; filename=".portico~x"', 400, "invalid-path"),
    "filename of ours in upper case": _named('name="data"; filename=".PORTICO~X"', 400, "invalid-path"),
    "filename twice": _named('name="data"; filename="a"; filename="b"'),
    "filename* in another charset": _named("name=\"data\"; filename*=latin1''a"),
    "filename* with a slash": _named("name=\"data\"; filename*=UTF-8''a%2Fb", 400, "invalid-path"),
    "transfer-encoded part": _upload(
        form("a", b"x").replace(b"\r\n\r\n", b"\r\nContent-Transfer-Encoding: base64\r\n\r\n", 1)
    ),
}
"""Nothing of these is stored."""

HALF_STORED: dict[str, Bad] = {
    "the same name twice": _upload(_PART + form("a", b"y")),
    "8 MiB epilogue": _upload(form("a", b"x") + b"x" * 8 * MIB),
    "a second part without an end": _upload(_PART + form("b", b"x").removesuffix(b"\r\n" + _CLOSE)),
    "100,000 tiny parts": _upload(
        b"".join(form(f"n{number}", b"").removesuffix(_CLOSE) for number in range(100_000)), 413, "too-large"
    ),
}
"""A first file of these ended before anything was wrong, and is stored; its name is reported."""
_LINES = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"


def _raw(request: bytes, status: int, code: str = "") -> Bad:
    return Bad(lambda _: request, status, code)


def _framed(*lines: str, body: bytes, status: int = 400, code: str = "") -> Bad:
    return Bad(lambda who: head("POST", f"{FILES}/", who.token, MULTIPART.strip(), *lines) + body, status, code)


def _conditional(*lines: str) -> Bad:
    return Bad(lambda who: get(f"{FILES}/kept", who.token, *lines), 400, "invalid-request")


_FORM = form("a", b"x")
_CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(_FORM), _FORM)
_TE = "Transfer-Encoding: chunked"

HTTP: dict[str, Bad] = {
    "header of 1 MiB": _raw(_LINES + b"X: " + b"x" * MIB + b"\r\n\r\n", 431),
    "header of 200 KiB": _raw(_LINES + b"X: " + b"x" * 200 * 1024 + b"\r\n\r\n", 431, "headers-too-large"),
    "10,000 headers": _raw(_LINES + b"X: 1\r\n" * 10_000 + b"\r\n", 431),
    "no host": _raw(b"GET /healthz HTTP/1.1\r\n\r\n", 400, "invalid-request"),
    "two hosts": _raw(_LINES + b"Host: b\r\n\r\n", 400, "invalid-request"),
    "another coding before chunked": _framed("Transfer-Encoding: gzip, chunked", body=_CHUNKED, code="invalid-request"),
    "two transfer codings": _framed("Transfer-Encoding: x", _TE, body=_CHUNKED, code="invalid-request"),
    "bare CR": _raw(_LINES + b"X: a\rY: b\r\n\r\n", 400),
    "nul in a header": _raw(_LINES + b"X: a\0b\r\n\r\n", 400),
    "folded header": _raw(_LINES + b"X: a\r\n b\r\n\r\n", 400),
    "blank before a colon": _raw(_LINES + b"X : a\r\n\r\n", 400),
    "header without a colon": _raw(_LINES + b"nothing\r\n\r\n", 400),
    "HTTP/0.9": _raw(b"GET /healthz\r\n\r\n", 400),
    "HTTP/2.0": _raw(b"GET /healthz HTTP/2.0\r\nHost: a\r\n\r\n", 400),
    "TRACE": _raw(b"TRACE / HTTP/1.1\r\nHost: a\r\nCookie: secret\r\n\r\n", 405, "method-not-allowed"),
    "CONNECT": _raw(b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", 404, "not-found"),
    "two lengths": _framed(f"Content-Length: {len(_FORM)}", "Content-Length: 0", body=_FORM),
    "two expectations": _framed(
        f"Content-Length: {len(_FORM)}",
        "Expect: 100-continue",
        "Expect: 100-continue",
        body=b"",
        code="invalid-request",
    ),
    "two ranges": _conditional("Range: bytes=0-0", "Range: bytes=1-1"),
    "two dates": _conditional(*["If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT"] * 2),
    "two versions to go on from": _conditional("Range: bytes=0-0", 'If-Range: "a"', 'If-Range: "b"'),
    "list of lengths": _framed(f"Content-Length: {len(_FORM)}, {len(_FORM)}", body=_FORM),
    "signed length": _framed(f"Content-Length: +{len(_FORM)}", body=_FORM),
    "negative length": _framed("Content-Length: -1", body=_FORM),
    "length beyond all numbers": _framed("Content-Length: 99999999999999999999", body=_FORM),
    "unknown transfer coding": _framed("Transfer-Encoding: xchunked", body=_CHUNKED),
    "chunked, but not last": _framed("Transfer-Encoding: chunked, identity", body=_CHUNKED),
    "identity": _framed("Transfer-Encoding: identity", f"Content-Length: {len(_FORM)}", body=_FORM),
    "chunked behind a control character": _framed("Transfer-Encoding: \x0bchunked", body=_CHUNKED),
    "chunk of no size": _framed(_TE, body=b"zz\r\n" + _FORM, code="invalid-request"),
    "chunk of a negative size": _framed(_TE, body=b"-1\r\n" + _FORM, code="invalid-request"),
    "chunk beyond all numbers": _framed(_TE, body=b"f" * 17 + b"\r\n" + _FORM, code="invalid-request"),
    "chunk with a bare LF": _framed(_TE, body=_CHUNKED.replace(b"\r\n", b"\n", 1), code="invalid-request"),
    "chunk extension of 1 MiB": _framed(_TE, body=b"5;" + b"x" * MIB + b"\r\n", code="invalid-request"),
}
"""What the HTTP server or the outermost layer refuses; where the code is empty, the server answers by itself."""

GAPS: dict[str, tuple[Bad, str]] = {
    "length and transfer coding": (
        _framed(f"Content-Length: {len(_FORM)}", _TE, body=_CHUNKED, code="invalid-request"),
        "the length is passed over; the connection is closed after the answer, so nothing can be smuggled",
    ),
    "two equal lengths": (
        _framed(*[f"Content-Length: {len(_FORM)}"] * 2, body=_FORM, code="invalid-request"),
        "the server library keeps one of them, as RFC 9112, 6.3 allows; both say the same, so nothing can be smuggled",
    ),
}
"""Known to be served although they should be refused, and what happens instead."""

NOTHING_STORED: dict[str, dict[str, Bad]] = {
    "login": LOGIN,
    "token": TOKEN,
    "path": PATH,
    "query": QUERY,
    "multipart": MULTIPARTS,
    "http": HTTP,
}
