import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ...gateways import Gateway
from ...servers.proxy import FaultProxy
from ..conftest import Portico
from .conftest import Start, last_line, make, sign_in, tree


def test_files_into_a_folder(remote: Portico, here: Path, there: Path) -> None:
    make(here, a="one", b="two")
    outcome = remote("put", "a.txt", "b.txt", "/reports/")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.startswith("2 uploaded, 6 B in ")
    assert outcome.err.count("\n") == 1
    assert tree(there) == {"reports/a.txt": "one", "reports/b.txt": "two"}
    assert last_line(remote("put", "a.txt", "b.txt", "/reports")).startswith("0 uploaded, 2 skipped, 0 B in ")


def test_one_file_under_another_name(remote: Portico, here: Path, there: Path) -> None:
    make(here, a="one")
    assert remote("put", "a.txt", "new/b.txt").code == 0
    assert remote("put", "a.txt", "/").code == 0
    assert remote("put", "a.txt", "/new").code == 0
    assert tree(there) == {"a.txt": "one", "new/a.txt": "one", "new/b.txt": "one"}


def test_what_has_changed_is_sent_again(remote: Portico, here: Path, there: Path) -> None:
    make(here, a="one")
    remote("put", "a.txt", "/")
    (here / "a.txt").write_text("two")
    os.utime(here / "a.txt", (4e9, 4e9))
    assert last_line(remote("put", "a.txt", "/")).startswith("1 uploaded, 3 B")
    make(here, a="longer")
    assert last_line(remote("put", "a.txt", "/")).startswith("1 uploaded")
    assert last_line(remote("put", "a.txt", "/")).startswith("0 uploaded, 1 skipped")
    assert last_line(remote("put", "-f", "a.txt", "/")).startswith("1 uploaded")
    assert tree(there) == {"a.txt": "longer"}


def test_a_folder_keeps_its_name_however_often(remote: Portico, here: Path, there: Path) -> None:
    make(here, d__a="one", d__e__b="two", d__e__c="x", d__e__d="x")
    (here / "d" / "empty").mkdir()
    for target in ("/backup/", "/backup", "backup"):
        assert remote("put", "-r", "d", target).code == 0
    expected = {"backup/d/a.txt": "one", "backup/d/e/b.txt": "two", "backup/d/e/c.txt": "x", "backup/d/e/d.txt": "x"}
    assert tree(there) == expected
    assert (there / "backup" / "d" / "empty").is_dir()
    assert last_line(remote("put", "-r", "d/", "/backup")).startswith("0 uploaded, 4 skipped")
    assert remote("put", "d/.", "/content", "-r").code == 0
    assert sorted(os.listdir(there / "content")) == ["a.txt", "e", "empty"]


def test_what_is_no_file_is_left_out_and_named(remote: Portico, here: Path, there: Path) -> None:
    make(here, d__a="one")
    os.mkfifo(here / "d" / "pipe")
    (here / "d" / "around").symlink_to(here / "d")
    (here / "d" / "link.txt").symlink_to("a.txt")
    outcome = remote("put", "-r", "d", "/")
    assert outcome.code == 0
    assert "d/pipe was skipped, because it is not a regular file" in outcome.err
    assert "d/around was skipped, because it is a link to a folder" in outcome.err
    assert tree(there) == {"d/a.txt": "one", "d/link.txt": "one"}


def test_patterns_that_the_shell_has_left(remote: Portico, here: Path, there: Path) -> None:
    make(here, a1="1", a2="2", b="3")
    assert remote("put", "a*.txt", "/").code == 0
    assert sorted(tree(there)) == ["a1.txt", "a2.txt"]
    make(here, **{"[x]": "odd"})
    assert remote("put", "[x].txt", "/").code == 0
    assert tree(there)["[x].txt"] == "odd"
    assert remote("put", "c*", "/").code == 4


def test_no_clobber(remote: Portico, here: Path, there: Path) -> None:
    make(there, a="old")
    make(here, a="newer", b="new")
    assert last_line(remote("put", "-n", "a.txt", "b.txt", "/")).startswith("1 uploaded, 1 skipped")
    assert last_line(remote("put", "-nr", ".", "/")).startswith("0 uploaded, 2 skipped")
    assert tree(there) == {"a.txt": "old", "b.txt": "new"}


def test_no_clobber_of_what_comes_meanwhile(
    remote: Portico, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(there, a="old")
    make(here, a="newer")
    monkeypatch.setattr("portico.cli.remote.upload_plan.UploadPlan._look", lambda *_: None)
    outcome = remote("put", "-n", "a.txt", "/")
    assert (outcome.code, tree(there)) == (0, {"a.txt": "old"})
    assert last_line(outcome).startswith("0 uploaded, 1 skipped")


def test_an_error_is_the_end(remote: Portico, here: Path, there: Path) -> None:
    make(here, d__a="1", d__c="3")
    (here / "d" / "b.txt").symlink_to("nowhere")
    outcome = remote("put", "-r", "d", "/")
    assert outcome.code == 1
    assert outcome.err.splitlines()[0] == "d/b.txt: No such file or directory."
    assert "1 failed" in last_line(outcome)


def test_or_not_the_end(remote: Portico, here: Path, there: Path) -> None:
    make(here, d__a="1", d__c="3", d__f="4")
    (here / "d" / "b.txt").symlink_to("nowhere")
    (here / "d" / "e\\x").write_text("no such name there")
    (there / "d" / "f.txt").mkdir(parents=True)
    outcome = remote("put", "-cr", "d", "none", "/")
    assert outcome.code == 1
    assert tree(there) == {"d/a.txt": "1", "d/c.txt": "3"}
    assert outcome.err.count("\n") == 5
    assert "Local folder 'none' not found." in outcome.err
    assert "'/d/f.txt' is a folder on the gateway" in outcome.err
    assert last_line(outcome).startswith("2 uploaded, 4 failed")


def test_failures_at_the_gateway_are_named(
    portico: Portico, gateway: Gateway, config: Path, here: Path, there: Path
) -> None:
    portico("login", gateway.url, "--user", "reader", "--password-stdin", stdin="pass word")
    make(here, a="1")
    outcome = portico("put", "a.txt", "/")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert tree(there) == {}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("none.txt", "/"), 4, "Local file 'none.txt' not found"),
        (("none/", "/"), 3, "Local folder 'none/' not found"),
        (("-r", "none", "/"), 3, "Local folder 'none' not found"),
        (("d", "/"), 2, "add -r"),
        (("a.txt",), 2, "target"),
        (("-", "a.txt", "/x"), 2, "Standard input"),
        (("-", "/"), 2, "is a folder"),
        (("a.txt", "d/a.txt", "/x"), 2, "the name 'a.txt'"),
        (("-r", "a.txt", "d/.", "/x"), 2, "the name 'a.txt'"),
        (("-r", "d/.", "d/.", "/x"), 2, "the name 'a.txt'"),
        (("a.txt", "/taken/x.txt"), 1, "taken"),
        (("a.txt", "/x/../y"), 2, ".."),
        (("-j", "0", "a.txt", "/"), 2, "--jobs"),
    ],
)
def test_failures(remote: Portico, here: Path, there: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    make(here, a="1", d__a="2")
    (there / "taken").write_text("a file")
    outcome = remote("put", *arguments)
    assert outcome.code == code, outcome.err
    assert words in outcome.err.splitlines()[0]
    assert tree(there) == {"taken": "a file"}


def test_standard_input(process: Start, there: Path) -> None:
    command = process("put", "-", "/x/stream.txt", stdin=subprocess.PIPE)
    out, err = command.communicate(b"streamed" * 1000)
    assert (command.returncode, out) == (0, b""), err
    assert tree(there) == {"x/stream.txt": "streamed" * 1000}


def test_a_pipe_by_its_name(process: Start, here: Path, there: Path) -> None:
    os.mkfifo(here / "pipe")
    command = process("put", "pipe", "/x.txt")
    subprocess.run(["sh", "-c", "printf through > pipe"], timeout=180, check=True)
    assert command.wait(20) == 0
    assert tree(there) == {"x.txt": "through"}


def test_a_dry_run_does_nothing(remote: Portico, here: Path, there: Path) -> None:
    make(here, d__a="1")
    remote("put", "-r", "d", "/")
    make(here, d__b="2")
    (here / "d" / "empty").mkdir()
    outcome = remote("put", "-r", "--dry-run", "d", "/")
    assert outcome.out.splitlines() == ["upload d/b.txt to /d/b.txt", "create folder /d/empty"]
    assert outcome.err == "1 would be uploaded, 1 skipped, 1 B\n"
    assert tree(there) == {"d/a.txt": "1"}


def test_quiet(remote: Portico, here: Path) -> None:
    make(here, a="1")
    outcome = remote("put", "-q", "a.txt", "/")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def test_the_lines_that_the_page_shows(process: Start, here: Path, there: Path, gateway: Gateway) -> None:
    make(here, FILE="1")
    (there / "it's & more").mkdir()
    lines = f"""set -e
portico() {{ {sys.executable} -m portico "$@"; }}
portico login {gateway.url} --user web --password-stdin < {gateway.home}/web-password.txt
portico ls -l '/it'\\''s & more'
portico put FILE.txt '/it'\\''s & more/'
"""
    done = subprocess.run(["bash", "-c", lines], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert tree(there) == {"it's & more/FILE.txt": "1"}


def test_half_a_file_is_not_sent(remote: Portico, here: Path, there: Path) -> None:
    make(here, d__a="1")
    (here / "d" / ".b.txt.12ab34cd.portico-part").write_text("half")
    assert remote("put", "-r", "d", "/").code == 0
    assert tree(there) == {"d/a.txt": "1"}


def test_who_may_only_bring_files(portico: Portico, gateway: Gateway, config: Path, here: Path, there: Path) -> None:
    portico("login", gateway.url, "--user", "bringer", "--password-stdin", stdin="pass word")
    make(here, a="1", b="2", d__a="1", d__b="2", d__c="3")
    for arguments in (["a.txt", "/one.txt"], ["a.txt", "b.txt", "/box"], ["-r", "d", "/"], ["-n", "a.txt", "/"]):
        outcome = portico("put", *arguments)
        assert outcome.code == 0, outcome.err
    assert sorted(tree(there)) == ["a.txt", "box/a.txt", "box/b.txt", "d/a.txt", "d/b.txt", "d/c.txt", "one.txt"]
    outcome = portico("sync", "up", "d", "/d", "--delete")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1), outcome.err


def test_names_that_look_like_options(remote: Portico, here: Path, there: Path) -> None:
    (here / "-r").write_text("dash")
    assert remote("put", "-n", "--", "-r", "/dash/").code == 0
    assert tree(there) == {"dash/-r": "dash"}
    assert remote("get", "/dash/-r", "--", "-n").code == 0
    assert tree(here) == {"-r": "dash", "-n": "dash"}
    assert remote("ls", "--", "dash").out == "-r\n"
    assert remote("rm", "--", "dash/-r").code == 0
    assert remote("put", "-n", "--").code == 2


@pytest.mark.skipif(not os.path.exists("/proc/version"), reason="this system has no such files")
def test_files_whose_size_is_a_lie(remote: Portico, here: Path, there: Path) -> None:
    assert os.stat("/proc/version").st_size == 0
    for target in ("/named", "/folder/"):
        assert remote("put", "/proc/version", target).code == 0
    content = Path("/proc/version").read_text()
    assert tree(there) == {"named": content, "folder/version": content}


def test_an_empty_file(remote: Portico, here: Path, there: Path) -> None:
    (here / "empty").touch()
    assert remote("put", "empty", "/").code == 0
    assert tree(there) == {"empty": ""}


def test_json_says_what_was_stored(remote: Portico, here: Path, there: Path) -> None:
    for name in ("a", "b"):
        (here / name).write_bytes(b"x" * 10)
    (there / "a").write_bytes(b"old")
    outcome = remote("put", "--json", "--rename", "a", "b", "/")
    assert outcome.code == 0, outcome.err
    lines = {line["source"]: line for line in map(json.loads, outcome.out.splitlines())}
    assert {source: line["path"] for source, line in lines.items()} == {"a": "/a (1)", "b": "/b"}
    for line in lines.values():
        assert line["size"] == 10
        assert line["digest"].startswith("sha-256=:")
        assert line["receipt"].count(".") == 2
        assert {"name", "etag", "lastModified"} <= line.keys()
        assert '"' not in line["etag"]
    stream = remote("put", "--json", "-", "/stream", stdin="content").data
    assert (stream["source"], stream["path"], stream["size"]) == ("-", "/stream", 7)
    assert stream["receipt"]
    (here / "receipts.json").write_text(outcome.out)
    assert remote("receipt", "key").code == 0
    assert remote("receipt", "verify", "a", "receipts.json").code == 0


@pytest.mark.parametrize("size", [10, 3_000_000])
@pytest.mark.parametrize("command", [("put", "-r", "folder/.", "/up"), ("sync", "up", "folder", "/up")])
def test_times_are_kept_and_files_skipped(
    remote: Portico, here: Path, there: Path, command: tuple[str, ...], size: int
) -> None:
    (here / "folder").mkdir()
    for number in range(3):
        file = here / "folder" / str(number)
        file.write_bytes(b"x" * size)
        os.utime(file, ns=(0, 1_000_000_000_123_456_789 + number))
    assert "3 uploaded" in remote(*command).err
    assert {file.stat().st_mtime for file in (there / "up").iterdir()} == {1_000_000_000.123456}
    for _ in range(2):
        assert "0 uploaded, 3 skipped" in remote(*command).err
    # A change on either side is noticed, whatever the other time says.
    (there / "up" / "1").write_bytes(b"y" * size)
    os.utime(here / "folder" / "2", ns=(0, 1_000_000_000_123_456_789))
    assert "2 uploaded, 1 skipped" in remote(*command).err
    without = remote(*command[:-1], "/other", "--no-times")
    assert without.code == 0
    assert min(file.stat().st_mtime for file in (there / "other").iterdir()) > 1_600_000_000
    assert "0 uploaded, 3 skipped" in remote(*command[:-1], "/other", "--no-times").err


def test_a_single_file_is_put(remote: Portico, gateway: Gateway, proxy: FaultProxy, here: Path, there: Path) -> None:
    make(here, a="1", folder__b="2")
    sign_in(remote, gateway, proxy.port)
    for words in (("put", "a.txt", "/"), ("sync", "up", "folder", "/folder")):
        proxy.calls.clear()
        assert remote(*words).code == 0
        assert [call.method for call in proxy.calls if call.method != "GET"] == ["PUT"]
    proxy.calls.clear()
    assert remote("put", "-", "/c", stdin="content").code == 0
    assert proxy.calls[-1].method == "PUT"
    assert tree(there) == {"a.txt": "1", "folder/b.txt": "2", "c": "content"}


def test_a_url_is_no_target(remote: Portico, gateway: Gateway, here: Path) -> None:
    make(here, a="1")
    outcome = remote("put", "a.txt", f"{gateway.url}/reports/")
    said = f"'{gateway.url}/reports/' is a URL; use a path from your root, such as '/reports/2026.csv'.\n"
    assert (outcome.code, outcome.err) == (2, said)


def test_verifying_large_files(remote: Portico, here: Path, there: Path) -> None:
    (here / "file").write_bytes(os.urandom(10_000_000))
    assert remote("put", "--verify", "file", "/").code == 0
    assert (there / "file").read_bytes() == (here / "file").read_bytes()
