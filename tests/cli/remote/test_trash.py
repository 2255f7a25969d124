import json
from pathlib import Path

from ..conftest import Portico
from .conftest import make


def test_the_trash(remote: Portico, there: Path) -> None:
    remote("trash", "empty", "--yes")
    make(there, a="one", docs__b="two", docs__c="three")
    remote("rm", "-r", "/docs")
    remote("rm", "/a.txt")
    lines = [json.loads(line) for line in remote("trash", "list", "--json").out.splitlines()]
    assert [(line["path"], line["isFolder"]) for line in lines] == [("/a.txt", False), ("/docs", True)]
    assert [line.split()[-1] for line in remote("trash", "list").out.splitlines()] == ["/a.txt", "/docs/"]
    assert remote("trash", "restore", "/docs").out == "/docs\n"
    assert (there / "docs/b.txt").read_text() == "two"
    make(there, a="another")
    assert "already exists" in remote("trash", "restore", lines[0]["id"]).err
    assert remote("trash", "restore", "--rename", lines[0]["id"]).out == "/a (1).txt\n"
    assert remote("trash", "restore", "/a.txt").err == "'/a.txt' is not in the trash.\n"
    remote("rm", "--permanent", "/a.txt")
    assert remote("trash", "list").out == ""
    for name in ("docs/b.txt", "docs/c.txt"):
        remote("rm", name)
    remote("trash", "remove", "/docs/b.txt")
    assert "add --yes" in remote("trash", "empty").err
    assert len(remote("trash", "list").out.splitlines()) == 1
    remote("trash", "empty", "--yes")
    assert remote("trash", "list").out == ""
