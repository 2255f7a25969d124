"""The OpenAPI document: `openapi.json`, completed with the version, the schemas and the problem responses.

In the file, `x-problems` lists the error codes of an operation; `x-problem-groups` names sets of them. `x-shared` names
parts of the document, and stands where they belong. The operations on the root folder and `HEAD` are derived from those
on a path.
"""

import json
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from portico import __version__
from portico.api import account, schemas, shares
from portico.api.login import OAuthError
from portico.api.middleware import MAX_URI_LENGTH
from portico.api.problems import ERROR_CODE, MEDIA_TYPE, PROBLEM_TYPES, Problem
from portico.api.requests import FILESYSTEM

Json = dict[str, Any]


def docs_page(document: Json) -> bytes:
    info = document["info"]
    found = [
        (path, method, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    ]
    operations = [_operation(document, *each) for each in found]
    index = [
        f'<li><a href="#{operation["operationId"]}"><b class="method">{method.upper()}</b> <code>{escape(path)}</code></a>'
        for path, method, operation in found
    ]
    tables = [
        f'<h3 id="schema-{name}">{name}</h3>{_schema_table(schema)}'
        for name, schema in document["components"]["schemas"].items()
    ]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(info["title"])} REST API</title>
<link rel="stylesheet" href="/portico.css">
</head>
<body>
<main>
<h1>{escape(info["title"])} REST API</h1>
<p>Version {escape(info["version"])} · <a href="/backend/openapi.json">OpenAPI document</a></p>
<p>{_text(info["description"])}</p>
<h2>First steps</h2>
<pre>{escape(_FIRST_STEPS)}</pre>
<h2>Addresses</h2>
<ul class="index">{"".join(index)}</ul>
{"".join(operations)}
<h2 id="errors">Errors</h2>
<p>Branch on <code>code</code>: it stays the same, while the sentences may be reworded.</p>
{_problem_table()}
<h2>Schemas</h2>
{"".join(tables)}
</main>
</body>
</html>
""".encode()


_FIRST_STEPS = """\
GATEWAY=https://files.example.com
TOKEN=$(curl -s -u CLIENT_ID:CLIENT_SECRET -d grant_type=password \\
  --data-urlencode username=NAME --data-urlencode password=PASSWORD \\
  $GATEWAY/backend/login | sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')
curl -H "Authorization: Bearer $TOKEN" "$GATEWAY/backend/1.0.0/filesystem/?size=1000"
curl -H "Authorization: Bearer $TOKEN" -F data=@report.csv $GATEWAY/backend/1.0.0/filesystem/reports"""


def _operation(document: Json, path: str, method: str, operation: Json) -> str:
    parameters = [*document["paths"][path].get("parameters", []), *operation.get("parameters", [])]
    credentials = [f"<code>{name}</code>" for choice in operation["security"] for name in choice]
    return "".join(
        (
            f'<section id="{operation["operationId"]}">',
            f'<h2><b class="method">{method.upper()}</b> <code>{escape(path)}</code></h2>',
            f"<p><strong>{_text(operation['summary'])}</strong></p>",
            f"<p>{_text(operation.get('description', ''))}</p>",
            f"<p>Credentials: {' or '.join(credentials) or 'none'}</p>",
            _parameter_table(parameters),
            _body(operation),
            _answer_table(operation),
            "</section>",
        )
    )


def _parameter_table(parameters: list[Json]) -> str:
    rows = [
        (f"<code>{escape(item['name'])}</code>", item["in"], _type(item["schema"]), _text(item["description"]))
        for item in parameters
    ]
    return _table(("Parameter", "In", "Type", "Meaning"), rows) if rows else ""


def _body(operation: Json) -> str:
    contents = operation.get("requestBody", {}).get("content", {})
    return "".join(
        f"<p>Body: <code>{media_type}</code></p>{_schema_table(content['schema'])}"
        for media_type, content in contents.items()
    )


def _answer_table(operation: Json) -> str:
    rows = [
        (status, _text(answer["description"]), _content(answer))
        for status, answer in sorted(operation["responses"].items())
    ]
    return _table(("Status", "Meaning", "Body"), rows)


def _content(answer: Json) -> str:
    return "<br>".join(
        f"<code>{escape(media_type)}</code> {_type(content.get('schema', {}))}"
        for media_type, content in answer.get("content", {}).items()
    )


def _schema_table(schema: Json) -> str:
    required = schema.get("required", ())
    rows = [
        (
            f"<code>{escape(name)}</code>",
            _type(item) + ("" if name in required else ", may be absent"),
            _text(item.get("description", "")),
        )
        for name, item in schema.get("properties", {}).items()
    ]
    return f"<p>{_text(schema.get('description', ''))}</p>{_table(('Field', 'Type', 'Meaning'), rows)}"


def _problem_table() -> str:
    rows = [
        (f'<code id="{code}">{code}</code>', str(kind.status), escape(kind.title))
        for code, kind in PROBLEM_TYPES.items()
    ]
    return _table(("Code", "Status", "Title"), rows)


def _type(schema: Json) -> str:
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f'<a href="#schema-{name}">{name}</a>'
    if choices := schema.get("anyOf"):
        return " or ".join(_type(choice) for choice in choices)
    if values := schema.get("enum"):
        return " or ".join(f"<code>{escape(json.dumps(value))}</code>" for value in values)
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return escape(str(schema.get("type", "bytes")))


def _text(markdown: str) -> str:
    """The little markup that the document uses: `code`."""
    parts = escape(markdown).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


_BODIES = [
    *(body for module in (schemas, account, shares) for name, body in vars(module).items() if name.endswith("Body")),
    OAuthError,
    Problem,
]
_FOR_FILES_ONLY = {"206", "304", "changed", "range-not-satisfiable"}


@cache
def document() -> Json:
    read: Json = msgspec.json.decode((files("portico.api") / "openapi.json").read_bytes())
    document: Json = _completed(read, read.pop("x-shared"))
    document["info"]["version"] = __version__
    _, found = msgspec.json.schema_components(_BODIES, ref_template="#/components/schemas/{name}")
    found["Problem"]["properties"]["code"]["enum"] = list(PROBLEM_TYPES)
    document["components"]["schemas"] = found
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


def _completed(part: Any, shared: Json) -> Any:
    """With what is shared in its places."""
    if isinstance(part, list):
        return [_completed(each, shared) for each in part]
    if not isinstance(part, dict):
        return part
    if name := part.get("x-shared"):
        return _completed(shared[name], shared)
    return {key: _completed(value, shared) for key, value in part.items()}


def _head(get: Json) -> Json:
    head = deepcopy(get) | {"operationId": "head", "summary": "Return the headers that GET would"}
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
    item["put"]["summary"] = "Always refused: the root is a folder"
    item["put"]["responses"] = {}
    item["delete"]["summary"] = "Always refused: the root folder can't be deleted"
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
            code = {"description": "The error's code", "schema": {"type": "string", "enum": by_status[status]}}
            answer.setdefault("headers", {})[ERROR_CODE] = code
        operation["responses"][str(status)] = answer


def _problem(status: int, codes: list[str]) -> Json:
    content = {
        "schema": {"$ref": "#/components/schemas/Problem"},
        "examples": {code: {"value": _example(code)} for code in codes},
    }
    answer: Json = {"description": ", ".join(f"`{code}`" for code in codes), "content": {MEDIA_TYPE: content}}
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
        "detail": "What went wrong and what to do.",
        "instance": f"{FILESYSTEM}/reports",
        "code": code,
        "requestId": "4b0f1c7d9e2a6358",
    }
