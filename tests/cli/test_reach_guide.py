"""The commands of docs/reach.md work as they stand there."""

import re
import shlex
from pathlib import Path

from .conftest import Portico

GUIDE = (Path(__file__).parents[2] / "docs" / "reach.md").read_text()
SECTIONS = ("Users and their mounts", "Groups", "Expiry and addresses")


def commands() -> list[str]:
    """Those that set up a gateway, from the top of the page to its middle."""
    found = []
    for section in SECTIONS:
        text = GUIDE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        assert text, section
        for block in re.findall(r"```\n(.*?)```", text, re.DOTALL):
            found += [line for line in block.splitlines() if line.startswith("portico ")]
    return found


def test_the_guide(portico: Portico, tmp_path: Path) -> None:
    for name in ("disk", "cloud"):
        (tmp_path / name).mkdir()
    (tmp_path / "cloud" / "projects").mkdir()
    (tmp_path / "cloud" / "projects" / "plan.pdf").write_text("plan")
    assert len(commands()) > 15
    for command in commands():
        words = shlex.split(command.partition(" < ")[0])[1:]
        if words[:3] == ["connection", "add", "disk"]:
            words[-1] = f"folder={tmp_path / 'disk'}"
        if words[:3] == ["connection", "add", "cloud"]:  # a folder, for want of a bucket
            words = ["connection", "add", "cloud", "--kind", "local", "--option", f"folder={tmp_path / 'cloud'}"]
        outcome = portico(*words)
        assert outcome.code == 0, (command, outcome.err)
    shown = {each["path"]: each["group"] for each in portico("user", "show", "anna", "--json").data["mounts"]}
    assert shown == {
        "/": None,
        "/home": "staff",
        "/projects": None,
        "/projects/plans": None,
        "/projects/salaries": None,
        "/shared": "staff",
    }
    assert "projects/plan.pdf" in portico("explain", "anna", "/projects/plan.pdf").out
    assert [each["user"] for each in portico("who", "cloud", "/projects/plan.pdf", "--json").lines] == ["anna"]
