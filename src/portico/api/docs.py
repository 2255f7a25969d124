"""The OpenAPI document as a page for people: plain HTML, made once, nothing loaded from anywhere."""

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from portico.api.problems import PROBLEM_TYPES

Json = dict[str, Any]


def docs_page(document: Json) -> bytes:
    info = document["info"]
    operations = [
        _operation(document, path, method, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    ]
    index = [
        f'<li><a href="#{operation["operationId"]}"><b class="method">{method.upper()}</b> <code>{escape(path)}</code></a>'
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    ]
    schemas = [
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
{"".join(schemas)}
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
    return "".join(
        (
            f'<section id="{operation["operationId"]}">',
            f'<h2><b class="method">{method.upper()}</b> <code>{escape(path)}</code></h2>',
            f"<p><strong>{_text(operation['summary'])}</strong></p>",
            f"<p>{_text(operation.get('description', ''))}</p>",
            f"<p>Credentials: {_security(operation)}</p>",
            _parameter_table(parameters),
            _body(operation),
            _answer_table(operation),
            "</section>",
        )
    )


def _security(operation: Json) -> str:
    words = [f"<code>{name}</code>" for choice in operation["security"] for name in choice]
    return " or ".join(words) or "none"


def _parameter_table(parameters: list[Json]) -> str:
    rows = [
        (
            f"<code>{escape(item['name'])}</code>",
            item["in"],
            _type(item["schema"]),
            _text(item["description"]),
        )
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
