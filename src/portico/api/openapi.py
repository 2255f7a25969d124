"""The OpenAPI document: `openapi.json`, completed with the version, the schemas and the problem responses.

In the file, `x-problems` lists the error codes of an operation; `x-problem-groups` names sets of them. The operations on
the root folder and `HEAD` are derived from those on a path.
"""

from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from portico import __version__
from portico.api.account import (
    AcceptedInvitationBody,
    AccountBody,
    InvitationBody,
    InvitationTokenBody,
    KeysBody,
    MadeKeyBody,
    NewKeyBody,
    NewPasswordBody,
    OpenSessionsBody,
)
from portico.api.edge import MAX_URI_LENGTH
from portico.api.login import OAuthError
from portico.api.problems import ERROR_CODE, MEDIA_TYPE, PROBLEM_TYPES, Problem
from portico.api.requests import FILESYSTEM
from portico.api.schemas import (
    EntryBody,
    HealthBody,
    JobBody,
    JobsBody,
    PageBody,
    SearchBody,
    SessionBody,
    StoredBody,
    TicketBody,
    TokenBody,
    TrashBody,
)
from portico.api.shares import (
    AccessesBody,
    LinkBody,
    LinkOptionsBody,
    LinksBody,
    NewLinkBody,
    OpeningBody,
    VisitBody,
)

Json = dict[str, Any]

_BODIES = (
    EntryBody,
    PageBody,
    SearchBody,
    StoredBody,
    TrashBody,
    TokenBody,
    SessionBody,
    TicketBody,
    AccountBody,
    NewPasswordBody,
    OpenSessionsBody,
    KeysBody,
    NewKeyBody,
    MadeKeyBody,
    InvitationTokenBody,
    InvitationBody,
    AcceptedInvitationBody,
    HealthBody,
    JobBody,
    JobsBody,
    LinkBody,
    LinksBody,
    NewLinkBody,
    LinkOptionsBody,
    AccessesBody,
    OpeningBody,
    VisitBody,
    OAuthError,
    Problem,
)
_FOR_FILES_ONLY = {"206", "304", "changed", "range-not-satisfiable"}


@cache
def document() -> Json:
    document: Json = msgspec.json.decode((files("portico.api") / "openapi.json").read_bytes())
    document["info"]["version"] = __version__
    _, schemas = msgspec.json.schema_components(_BODIES, ref_template="#/components/schemas/{name}")
    schemas["Problem"]["properties"]["code"]["enum"] = list(PROBLEM_TYPES)
    document["components"]["schemas"] = schemas
    paths = document["paths"]
    on_path = paths[f"{FILESYSTEM}/{{path}}"]
    on_path["head"] = _head(on_path["get"])
    paths[FILESYSTEM] = _on_root(on_path)
    groups = document.pop("x-problem-groups")
    for item in paths.values():
        for method, operation in item.items():
            if method != "parameters":
                _add_problems(operation, groups, with_content=method != "head")
    return document


def _head(get: Json) -> Json:
    head = deepcopy(get) | {"operationId": "head", "summary": "The headers that GET would return"}
    for answer in head["responses"].values():
        answer.pop("content", None)
    return head


def _on_root(on_path: Json) -> Json:
    """The same operations on the root folder, which is no file and cannot be deleted."""
    item = {method: deepcopy(on_path[method]) for method in ("get", "head", "post", "put", "delete")}
    for operation in item.values():
        operation["operationId"] += "Root"
    for reading in (item["get"], item["head"]):
        reading["security"] = [{"bearer": []}]
        reading["parameters"] = [each for each in reading["parameters"] if each["in"] == "query"]
        reading["x-problems"] = [code for code in reading["x-problems"] if code not in _FOR_FILES_ONLY]
        reading["responses"] = {"200": reading["responses"]["200"]}
        del reading["responses"]["200"]["headers"]
    item["get"]["summary"] = "List the root folder"
    del item["get"]["responses"]["200"]["content"]["*/*"]
    item["put"]["summary"] = "Refused: the root is a folder"
    item["put"]["responses"] = {}
    item["delete"]["summary"] = "Refused: the root folder cannot be deleted"
    item["delete"]["responses"] = {}
    return item


def _add_problems(operation: Json, groups: dict[str, list[str]], *, with_content: bool) -> None:
    """One response per status, with an example of each code."""
    by_status: dict[int, list[str]] = {}
    for name in operation.pop("x-problems"):
        for code in groups.get(name, [name]):
            by_status.setdefault(PROBLEM_TYPES[code].status, []).append(code)
    for status in sorted(by_status):
        answer = _problem(status, by_status[status])
        if not with_content:
            del answer["content"]
            code = {
                "description": "The code of the error",
                "schema": {"type": "string", "enum": by_status[status]},
            }
            answer.setdefault("headers", {})[ERROR_CODE] = code
        operation["responses"][str(status)] = answer


def _problem(status: int, codes: list[str]) -> Json:
    content = {
        "schema": {"$ref": "#/components/schemas/Problem"},
        "examples": {code: {"value": _example(code)} for code in codes},
    }
    answer: Json = {
        "description": ", ".join(f"`{code}`" for code in codes),
        "content": {MEDIA_TYPE: content},
    }
    if status in (429, 503) or "request-running" in codes:
        seconds = {"description": "Seconds to wait", "schema": {"type": "integer", "minimum": 0}}
        answer["headers"] = {"Retry-After": seconds}
    if status == 401:
        answer["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    if status == 431:
        answer["description"] += " (the body may be empty)"
    if status == 414:
        answer["description"] += f" (over {MAX_URI_LENGTH} bytes)"
    return answer


def _example(code: str) -> Json:
    kind = PROBLEM_TYPES[code]
    return {
        "type": f"/backend/docs#{code}",
        "title": kind.title,
        "status": kind.status,
        "detail": "A sentence that says what went wrong and what to do.",
        "instance": f"{FILESYSTEM}/reports",
        "code": code,
        "requestId": "4b0f1c7d9e2a6358",
    }
