import json
from pathlib import Path

import pytest

from ...client.faults import AWAY
from ...gateways import Gateway
from ...servers.proxy import FaultProxy
from ..conftest import Portico
from .conftest import Start, make, sign_in


@pytest.fixture
def files(there: Path) -> None:
    make(there, a="one", reports__2025="x" * 1500, reports__2026="y", reports__old__1999="z")
    (there / "empty").mkdir()


@pytest.mark.usefixtures("files")
def test_names(remote: Portico) -> None:
    assert remote("ls").out.splitlines() == ["empty/", "reports/", "a.txt"]
    for path in ("/reports", "reports", "/reports/", "reports/"):
        assert remote("ls", path).out.splitlines() == ["old/", "2025.txt", "2026.txt"]
    assert remote("ls", "/empty").out == ""
    assert remote("ls", "/a.txt").out == "a.txt\n"
    assert remote("ls", "/reports/20*").out.splitlines() == ["2025.txt", "2026.txt"]
    assert remote("ls", "-R", "reports").out.splitlines() == [
        "/reports/old/",
        "/reports/2025.txt",
        "/reports/2026.txt",
        "/reports/old/1999.txt",
    ]
    assert remote("ls", "/reports", "/empty", "/a.txt").out.splitlines() == [
        "/reports:",
        "old/",
        "2025.txt",
        "2026.txt",
        "",
        "/empty:",
        "a.txt",
    ]


@pytest.mark.usefixtures("files")
def test_sizes_and_times(remote: Portico, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    lines = remote("ls", "-l", "/reports").out.splitlines()
    assert lines[1].split() == ["1500", "2023-11-14", "22:13:20", "2025.txt"]
    assert lines[0].split()[-1] == "old/"
    assert remote("ls", "-lh", "/reports").out.splitlines()[1].split()[:2] == ["1.5", "kB"]
    assert remote("ls", "-h", "/reports").out == remote("ls", "-lh", "/reports").out


@pytest.mark.usefixtures("files")
def test_json_is_one_object_a_line(remote: Portico) -> None:
    entries = [json.loads(line) for line in remote("ls", "--json", "-R").out.splitlines()]
    assert len(entries) == 7
    assert entries[2] == {
        "name": "a.txt",
        "absolutePath": "/a.txt",
        "type": "REGULAR",
        "size": 3,
        "contentType": "text/plain",
        "lastModified": "2023-11-14T22:13:20.000Z",
    }
    assert {entry["type"] for entry in entries} == {"REGULAR", "DIRECTORY"}


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("/none",), 3),
        (("/none/",), 3),
        (("-R", "/none"), 3),
        (("/none*",), 3),
        (("/a.txt/",), 1),
        (("/../x",), 2),
        (("//",), 2),
        (("--jsn",), 2),
    ],
)
def test_failures(remote: Portico, arguments: tuple[str, ...], code: int) -> None:
    outcome = remote("ls", *arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1), outcome.err


def test_a_gateway_that_is_not_available(remote: Portico, gateway: Gateway, proxy: FaultProxy) -> None:
    sign_in(remote, gateway, proxy.port)
    for turns, said in ((1, ""), (4, "The gateway isn't available; trying again.\n")):
        proxy.on(lambda call: call.method == "GET", AWAY, turns=turns)
        outcome = remote("ls", "--json")
        assert (outcome.code, outcome.err) == (0, said)
        assert all(map(json.loads, outcome.out.splitlines()))


def test_a_name_like_a_pattern_is_itself(remote: Portico, there: Path) -> None:
    make(there, **{"[ab]": "odd", "a": "plain"})
    assert remote("ls", "/[ab].txt").out == "[ab].txt\n"
    assert remote("ls", "/?.txt").out == "a.txt\n"


def test_an_output_that_cannot_say_a_name(process: Start, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(there, **{"é名𝄞": "1"})
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    out, err = process("ls").communicate()
    assert (out, err) == (b"\xe9\\u540d\\U0001d11e.txt\n", b"")
    out, err = process("ls", "--json").communicate()
    assert json.loads(out)["name"] == "é名𝄞.txt"
