"""Every operation of the API has a line in the bench, as docs/performance.md says."""

import json
import re
from pathlib import Path
from typing import Any

from bench import operations, sftpgo

PROJECT = Path(__file__).parents[2]
ROW = re.compile(r"\| (`[^|]+`) \| (`[^|]+`) \|")
NAME = re.compile(r"`([^`]+)`")


def offered() -> set[str]:
    """The operations by their ids, also with each action that they can be asked for."""
    document = json.loads((PROJECT / "src" / "portico" / "api" / "openapi.json").read_text())
    names: set[str] = set()
    for path in document["paths"].values():
        for operation in path.values():
            if isinstance(operation, dict) and "operationId" in operation:
                names |= {operation["operationId"], *with_actions(operation)}
    return names


def with_actions(operation: dict[str, Any]) -> set[str]:
    choices = [each["schema"]["enum"] for each in operation.get("parameters", ()) if each.get("name") == "action"]
    return {f"{operation['operationId']} {action}" for enum in choices for action in enum if len(enum) > 1}


def test_every_operation_has_a_line() -> None:
    text = (PROJECT / "docs" / "performance.md").read_text()
    section = text.partition("## Operations and their lines\n")[2].partition("\n## ")[0]
    rows = [(NAME.findall(lines), NAME.findall(measured)) for lines, measured in ROW.findall(section)]
    assert {line for lines, _ in rows for line in lines} <= {*operations.LINES, *sftpgo.LINES}
    assert {operation for _, measured in rows for operation in measured} == offered()
