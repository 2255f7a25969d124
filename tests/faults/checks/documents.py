"""The OpenAPI document is kept: requests made from it, one by one and in chains, against a real gateway."""

import asyncio
from collections import Counter
from copy import deepcopy
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky
from schemathesis import checks

from portico.api.openapi import document

from ... import media_types  # noqa: F401
from ..figures import Effort, Figure, Lines, none_of
from ..processes import TunedGateway
from .floods import credentials

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]
ROOT, BELOW = "/backend/1.0.0/filesystem", "/backend/1.0.0/filesystem/{path}"
SAME_PATH = {"path": "$request.path.path"}


def linked() -> dict[str, Any]:
    """The document, with what may follow on what: it has no links of its own, for no client would use them."""
    whole = deepcopy(document())
    followers = {name: {"operationId": name, "parameters": SAME_PATH} for name in ("read", "head", "write", "delete")}
    below = whole["paths"][BELOW]
    for status in ("201", "204"):
        below["post"]["responses"][status]["links"] = followers
    below["post"]["responses"]["200"]["links"] = {
        "download": {"operationId": "read", "parameters": {**SAME_PATH, "query.ticket": "$response.body#/ticket"}}
    }
    below["get"]["responses"]["200"]["links"] = {
        **followers,
        "next": {"operationId": "read", "parameters": {**SAME_PATH, "query.cursor": "$response.body#/nextCursor"}},
    }
    below["delete"]["responses"]["204"]["links"] = followers
    whole["paths"][ROOT]["get"]["responses"]["200"]["links"] = {
        "next": {"operationId": "readRoot", "parameters": {"query.cursor": "$response.body#/nextCursor"}},
        "first": {"operationId": "read", "parameters": {"path": "$response.body#/content/1/name"}},
    }
    below["get"].setdefault("parameters", []).append(
        {"name": "ticket", "in": "query", "required": False, "schema": {"type": "string"}}
    )
    return whole


def chained(gateway: TunedGateway, examples: int, steps: int) -> tuple[Counter[str], str]:
    """How often each answer came, and the first thing that was not as the document says."""
    seen: Counter[str] = Counter()
    client = credentials(gateway)[0]
    # A logout would end every chain but its own; the tests of the API hold it to the document.
    schema = schemathesis.openapi.from_dict(linked()).exclude(operation_id="logout")
    schema.config.update(base_url=gateway.url)

    class Chains(schema.as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            # Every chain finds the same, or the same choices would lead to other chains.
            (gateway.empty_root() / "reports").mkdir()
            for name in ("first.txt", "second.txt"):
                (gateway.files / "web" / "reports" / name).write_bytes(b"content")

        def before_call(self, case: Any) -> None:
            login = case.path == "/backend/login"
            case.headers["Authorization"] = f"Basic {client}" if login else f"Bearer {gateway.token}"

        def validate_response(self, response: Any, case: Any, additional_checks: Any = (), **_: Any) -> None:
            seen[f"{case.method} {response.status_code}"] += 1
            case.validate_response(response, checks=CHECKS)

    try:
        Chains.run(
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
        )
    except Flaky:
        # A chain ended otherwise than one with the same choices: an answer depends on what happens meanwhile, such as a
        # token that has expired. That is no answer against the document.
        return seen, ""
    except Exception as error:
        return seen, f"{type(error).__name__}: {error}"
    return seen, ""


async def stateful(effort: Effort) -> list[Figure]:
    async with effort.gateway() as set_:
        examples, steps = effort.of(8, 400), effort.of(6, 20)
        seen, wrong = await asyncio.to_thread(chained, set_.gateway, examples, steps)
        bugs = [line for line in set_.gateway.output.splitlines() if '"event":"bug"' in line]
    return [
        none_of("answers in chains that the document does not know", seen.total(), [wrong] if wrong else []),
        none_of("bugs in the log", seen.total(), bugs),
        Figure("answers", "shown", str(dict(seen.most_common(12))), seen.total() > 0),
    ]


LINES: Lines = {"document": stateful}
