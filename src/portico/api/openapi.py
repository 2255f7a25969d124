"""The OpenAPI document, made of the same tables and structures that the endpoints use."""

from functools import cache
from typing import Any

import msgspec

from portico import __version__
from portico.api.bodies import (
    EntryBody,
    HealthBody,
    PageBody,
    SessionBody,
    StoredBody,
    TicketBody,
    TokenBody,
)
from portico.api.changes import WriteAction
from portico.api.edge import LONGEST_URI
from portico.api.listing import ReadAction
from portico.api.login import OAuthError
from portico.api.preferences import REPRESENTATION
from portico.api.problems import KINDS, MEDIA_TYPE, Problem
from portico.api.queries import DEFAULT_SIZE, FILESYSTEM
from portico.drive import OnConflict

Json = dict[str, Any]

_BODIES = (
    EntryBody,
    PageBody,
    StoredBody,
    TokenBody,
    SessionBody,
    TicketBody,
    HealthBody,
    OAuthError,
    Problem,
)

_EVERYWHERE = (
    "invalid-request",
    "address-not-allowed",
    "uri-too-long",
    "headers-too-large",
    "internal",
    "unavailable",
)
_SIGNED_IN = (*_EVERYWHERE, "not-signed-in")
_STORAGE = (
    *_SIGNED_IN,
    *("invalid-path", "forbidden", "not-found", "is-a-folder", "not-a-folder"),
    *("provider-refused", "provider-error", "provider-unavailable", "provider-timeout"),
)

_ENTRY: Json = {
    "name": "2026.csv",
    "absolutePath": "/reports/2026.csv",
    "type": "REGULAR",
    "contentType": "text/csv",
    "size": 18230,
    "lastModified": "2026-11-14T09:30:00.000Z",
    "exists": True,
    "isCurrentFolder": False,
}
_CURRENT: Json = {
    "name": "reports",
    "absolutePath": "/reports",
    "type": "DIRECTORY",
    "contentType": "folder",
    "exists": True,
    "isCurrentFolder": True,
}


@cache
def document() -> Json:
    _, schemas = msgspec.json.schema_components(_BODIES, ref_template="#/components/schemas/{name}")
    schemas["Problem"]["properties"]["code"]["enum"] = list(KINDS)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Portico",
            "version": __version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": (
                "A gateway in front of cloud storage. Get a token, then list, download and upload files below the "
                "root folder of your account. Errors are problem bodies (RFC 9457) whose `code` never changes; "
                "those of the sign-in follow RFC 6749. Every answer carries an `X-Request-Id`."
            ),
        },
        "servers": [{"url": "/", "description": "This gateway"}],
        "tags": [
            {"name": "sign-in", "description": "Tokens"},
            {"name": "files", "description": "The tree below your root folder"},
            {"name": "service", "description": "For monitors and for tools"},
        ],
        "paths": _paths(),
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The access_token of the sign-in.",
                },
                "client": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "security.client-id and security.client-secret; they are not confidential.",
                },
                "ticket": {
                    "type": "apiKey",
                    "in": "query",
                    "name": "ticket",
                    "description": "Good for the download of one file, for 60 seconds.",
                },
            },
        },
    }


def _paths() -> Json:
    path = {
        "name": "path",
        "in": "path",
        "required": True,
        "description": (
            "From your root folder, without a leading slash; percent-encoded UTF-8, where an encoded slash is a "
            "slash too. No segment may be empty, `.` or `..`, or hold a backslash or a control character. Where a "
            "file and a folder have the same name, a slash at the end means the folder."
        ),
        "schema": {"type": "string", "minLength": 1},
        "example": "reports/2026.csv",
    }
    return {
        "/backend/login": {"post": _login()},
        "/backend/logout": {"post": _logout()},
        "/backend/session": {"get": _session()},
        FILESYSTEM: {
            "get": _get(root=True),
            "head": _head(root=True),
            "post": _post(root=True),
            "delete": _delete(root=True),
        },
        FILESYSTEM + "/{path}": {
            "parameters": [path],
            "get": _get(),
            "head": _head(),
            "post": _post(),
            "delete": _delete(),
        },
        "/backend/openapi.json": {
            "get": _plain("getOpenapi", "This document", "application/json", {"type": "object"})
        },
        "/backend/docs": {
            "get": _plain("getDocs", "This document for people", "text/html", {"type": "string"})
        },
        "/healthz": {
            "get": _plain("getHealth", "Does the process answer?", "application/json", _ref("HealthBody"))
        },
        "/readyz": {"get": _plain("getReadiness", "Can it serve?", "application/json", _ref("HealthBody"))},
    }


# Signing in


def _login() -> Json:
    form = {
        "type": "object",
        "required": ["grant_type"],
        "properties": {
            "grant_type": {"type": "string", "enum": ["password", "refresh_token"]},
            "username": {"type": "string", "maxLength": 256, "description": "With the grant `password`."},
            "password": {"type": "string", "format": "password", "description": "With the grant `password`."},
            "refresh_token": {"type": "string", "description": "With the grant `refresh_token`."},
        },
    }
    answers = {
        "200": _answer("The tokens", "application/json", _ref("TokenBody")),
        **{
            str(status): _answer(text, "application/json", _ref("OAuthError"))
            for status, text in (
                (400, "`invalid_request`, `invalid_grant` or `unsupported_grant_type`"),
                (401, "`invalid_client`: client id or client secret is wrong"),
                (408, "`invalid_request`: the client stopped sending"),
                (429, "Too many attempts; see `Retry-After`"),
                (503, "Not now; see `Retry-After`"),
            )
        },
    }
    answers["429"]["headers"] = answers["503"]["headers"] = {"Retry-After": _RETRY_AFTER}
    answers["200"]["headers"] = {
        "Set-Cookie": {
            "description": (
                "With the grant `password`: `portico-device`, by which later sign-ins of this user are not slowed "
                "down by the failures of others. It opens nothing, and may be ignored."
            ),
            "schema": {"type": "string"},
        }
    }
    answers["401"]["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    return {
        "operationId": "login",
        "tags": ["sign-in"],
        "summary": "Obtain a token",
        "description": (
            "The OAuth 2.0 password grant, and `refresh_token` for a new pair later on. A replaced refresh token "
            "works for 60 seconds more; used after that, it ends the whole session."
        ),
        "security": [{"client": []}],
        "requestBody": {
            "required": True,
            "content": {
                "application/x-www-form-urlencoded": {
                    "schema": form,
                    "example": {"grant_type": "password", "username": "web", "password": "correct horse"},
                }
            },
        },
        "responses": answers
        | _problems("address-not-allowed", "timeout", "uri-too-long", "headers-too-large", "internal"),
    }


def _logout() -> Json:
    return {
        "operationId": "logout",
        "tags": ["sign-in"],
        "summary": "End this token, its refresh tokens and its tickets",
        "security": [{"bearer": []}],
        "responses": {"204": {"description": "Signed out"}} | _problems(*_SIGNED_IN),
    }


def _session() -> Json:
    return {
        "operationId": "getSession",
        "tags": ["sign-in"],
        "summary": "Who is signed in",
        "security": [{"bearer": []}],
        "responses": {"200": _answer("The session", "application/json", _ref("SessionBody"))}
        | _problems(*_SIGNED_IN),
    }


# The file system


def _get(*, root: bool = False) -> Json:
    page = {"nextCursor": None, "content": [_CURRENT, _ENTRY]}
    listing = _answer(
        "A page of the listing, the entry (STAT), or the file itself",
        "application/json",
        {"anyOf": [_ref("PageBody"), _ref("EntryBody")]},
        {"page": {"value": page}, "entry": {"value": _ENTRY}},
    )
    answers: Json = {"200": listing}
    problems = [*_STORAGE, "invalid-cursor"]
    if not root:
        listing["content"]["*/*"] = {}
        listing["headers"] = _DOWNLOAD_HEADERS
        # Of any type; generators of clients know this one to be bytes.
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}, "*/*": {}}
        answers["206"] = {"description": "The range", "content": content, "headers": _DOWNLOAD_HEADERS}
        answers["304"] = {"description": "You have this version"}
        problems += ["changed", "range-not-satisfiable"]
    return {
        "operationId": "readRoot" if root else "read",
        "tags": ["files"],
        "summary": "List the root folder" if root else "List a folder, or download or describe a file",
        "description": (
            "A folder is listed page by page: repeat the request with `cursor` set to `nextCursor` until that is "
            "null. A page may be short or empty before the last. The first page begins with an entry for the folder "
            "itself. Folders stand before files, each by code point: over the whole folder on `local`, within a "
            "page on the cloud services. A file is sent as an attachment; `HEAD` answers the same headers."
        ),
        "security": [{"bearer": []}] if root else [{"bearer": []}, {"ticket": []}],
        "parameters": [*_LIST_PARAMETERS, *([] if root else _DOWNLOAD_PARAMETERS)],
        "responses": answers | _problems(*problems),
    }


def _head(*, root: bool = False) -> Json:
    operation = _get(root=root)
    operation["operationId"] = "headRoot" if root else "head"
    operation["summary"] = "The headers that GET would answer"
    for answer in operation["responses"].values():
        answer.pop("content", None)
    return operation


def _post(*, root: bool = False) -> Json:
    form = {
        "type": "object",
        "required": ["data"],
        "properties": {
            "data": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "string", "format": "binary"},
                "description": "The files: each a part named `data` with a filename. No other part is taken.",
            }
        },
    }
    return {
        "operationId": "writeRoot" if root else "write",
        "tags": ["files"],
        "summary": "Upload files into the folder, or change the tree",
        "description": (
            "Without `action`: every file of the form is stored in the folder, which is made if it is missing. Each "
            "file appears whole or not at all; 204 means that all are durable. If one fails, `stored` and `failed` "
            "name what stands and what does not. An upload of one file says in `Content-Location` where it is; with "
            "`Prefer: return=representation` any upload answers 200 and the entries of its files. Each part may carry "
            "a `Content-Digest`, `Repr-Digest` or `Content-MD5` of its content, and a request with one file one of the "
            "whole body.\n\n"
            "`MKDIR` makes this folder. `MOVE` and `COPY` take this file or folder to `target`. `TICKET` answers a "
            "ticket with which a browser can download this file."
        ),
        "security": [{"bearer": []}],
        "parameters": _WRITE_PARAMETERS,
        "requestBody": {
            "description": "For an upload only",
            "content": {
                "multipart/form-data": {"schema": form, "encoding": {"data": {"contentType": "*/*"}}}
            },
        },
        "responses": {
            "200": _answer(
                "The ticket, or what an upload stored if that was preferred",
                "application/json",
                {"anyOf": [_ref("TicketBody"), _ref("StoredBody")]},
                {
                    "ticket": {"value": {"ticket": "8W3xV0b2Tq", "expiresIn": 60}},
                    "stored": {"value": {"content": [_ENTRY]}},
                },
            )
            | {"headers": {"Preference-Applied": {"schema": {"type": "string", "const": REPRESENTATION}}}},
            "201": {
                "description": "Made, moved or copied",
                "headers": {"Location": {"description": "Where it stands now", "schema": {"type": "string"}}},
            },
            "204": {
                "description": "Every file is stored, durable and listed",
                "headers": {
                    "Content-Location": {
                        "description": "After an upload of one file: its address, under its final name",
                        "schema": {"type": "string"},
                    }
                },
            },
        }
        | _problems(
            *_STORAGE,
            *(
                "already-exists",
                "not-possible",
                "timeout",
                "too-large",
                "unsupported-media-type",
                "storage-full",
            ),
        ),
    }


def _delete(*, root: bool = False) -> Json:
    done: Json = {} if root else {"204": {"description": "It is gone"}}
    return {
        "operationId": "deleteRoot" if root else "delete",
        "tags": ["files"],
        "summary": "Refused: the root folder cannot be deleted" if root else "Delete a file or folder",
        "security": [{"bearer": []}],
        "parameters": [
            {
                "name": "recursive",
                "in": "query",
                "description": "Whether a folder goes with all that it holds",
                "schema": {"type": "string", "enum": ["true", "false"], "default": "false"},
            }
        ],
        "responses": done | _problems(*_STORAGE, "folder-not-empty", "not-possible"),
    }


_LIST_PARAMETERS: list[Json] = [
    {
        "name": "action",
        "in": "query",
        "description": "What to do; left out, a folder is listed and a file is sent",
        "schema": {"type": "string", "enum": list(ReadAction)},
    },
    {
        "name": "cursor",
        "in": "query",
        "description": "The `nextCursor` of the page before, percent-encoded; good for this folder only",
        "schema": {"type": "string", "minLength": 1},
    },
    {
        "name": "size",
        "in": "query",
        "description": (
            "Entries per page, not counting the one for the folder itself. More than the service's maximum (S3 and "
            "Google Cloud Storage 1000; Azure and local 5000) means the maximum; 1000 or less suits all of them."
        ),
        "schema": {"type": "integer", "minimum": 1, "default": DEFAULT_SIZE},
    },
]
_DOWNLOAD_PARAMETERS: list[Json] = [
    {"name": name, "in": "header", "description": text, "schema": {"type": "string"}}
    for name, text in (
        ("Range", "One range of bytes, like `bytes=0-1023`"),
        ("If-Match", "Only if the file has this ETag, else 412"),
        ("If-None-Match", "Only if the file has another ETag, else 304"),
        ("If-Modified-Since", "Only if the file is newer, else 304"),
        ("If-Unmodified-Since", "Only if the file is not newer, else 412"),
        ("If-Range", "The Range holds for this version; of another, the whole file is sent"),
    )
]
_SHA_256 = "^sha-256=:[A-Za-z0-9+/]{43}=:$"
"""One of the ways to write it, which is enough for generators."""
_WRITE_PARAMETERS: list[Json] = [
    {
        "name": "action",
        "in": "query",
        "description": "What to do instead of an upload",
        "schema": {"type": "string", "enum": list(WriteAction)},
    },
    {
        "name": "target",
        "in": "query",
        "description": "With MOVE and COPY: the new path, from the root",
        "schema": {"type": "string"},
        "example": "/reports/old/2026.csv",
    },
    {
        "name": "onConflict",
        "in": "query",
        "description": (
            "When the name is taken: `replace` it (needs the right to overwrite), `fail`, or `rename` the new one to "
            "`name (1).ext`. Left out: replace if you may, else fail."
        ),
        "schema": {"type": "string", "enum": list(OnConflict)},
    },
    {
        "name": "Prefer",
        "in": "header",
        "description": "With an upload: `return=representation` asks for the entries that were stored (RFC 7240)",
        "schema": {"type": "string"},
        "example": REPRESENTATION,
    },
    *(
        {
            "name": name,
            "in": "header",
            "description": f"With an upload: the body's digest ({rfc}); 400, and nothing is stored, if it does not match",
            "schema": {"type": "string", "pattern": pattern},
            "example": example,
        }
        for name, rfc, pattern, example in (
            ("Content-MD5", "RFC 1864", "^[A-Za-z0-9+/]{22}==$", "1B2M2Y8AsgTpgAmY7PhCfg=="),
            (
                "Content-Digest",
                "RFC 9530",
                _SHA_256,
                "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:",
            ),
            ("Repr-Digest", "RFC 9530", _SHA_256, "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"),
        )
    ),
]
_DOWNLOAD_HEADERS: Json = {
    name: {"description": text, "schema": {"type": "string"}}
    for name, text in (
        ("ETag", "The version of the file"),
        ("Last-Modified", "When it was written"),
        ("Content-Disposition", "`attachment` with the file's name"),
        ("Accept-Ranges", "`bytes`"),
        ("Content-Range", "Which bytes these are, with 206"),
    )
}
_RETRY_AFTER: Json = {"description": "Seconds to wait", "schema": {"type": "integer", "minimum": 0}}


# Pieces


def _plain(operation: str, summary: str, media_type: str, schema: Json) -> Json:
    return {
        "operationId": operation,
        "tags": ["service"],
        "summary": summary,
        "security": [],
        "responses": {"200": _answer(summary, media_type, schema)} | _problems(*_EVERYWHERE),
    }


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _answer(description: str, media_type: str, schema: Json, examples: Json | None = None) -> Json:
    content: Json = {"schema": schema}
    if examples:
        content["examples"] = examples
    return {"description": description, "content": {media_type: content}}


def _problems(*codes: str) -> Json:
    """The answers for these errors, one per status, with an example of each code."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(KINDS[code].status, []).append(code)
    return {str(status): _problem(status, by_status[status]) for status in sorted(by_status)}


def _problem(status: int, codes: list[str]) -> Json:
    examples = {code: {"value": _example(code)} for code in codes}
    answer = _answer(", ".join(f"`{code}`" for code in codes), MEDIA_TYPE, _ref("Problem"), examples)
    if status in (429, 503):
        answer["headers"] = {"Retry-After": _RETRY_AFTER}
    if status == 401:
        answer["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    if status == 431:
        answer["description"] += " (the body may be empty)"
    if status == 414:
        answer["description"] += f" (over {LONGEST_URI} bytes)"
    return answer


def _example(code: str) -> Json:
    kind = KINDS[code]
    return {
        "type": f"/backend/docs#{code}",
        "title": kind.title,
        "status": kind.status,
        "detail": "One sentence that says what was wrong and what to do.",
        "instance": f"{FILESYSTEM}/reports",
        "code": code,
        "requestId": "4b0f1c7d9e2a6358",
    }
