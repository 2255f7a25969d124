"""The instruments of the comparison with SFTPGo."""

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from bench import sftpgo
from bench.load import Target, request
from bench.outside import measured, parsed
from bench.sftpgo import listing, peer, uploads
from bench.sftpgo.arena import NGINX, OURS, RCLONE, RCLONE_USER, SFTPGO, Plan
from bench.sftpgo.downloads import address
from bench.sftpgo.listing import coming_and_going, list_all, list_changed, renamed
from bench.sftpgo.uploads import form, raw, sent_durably
from bench.table import Figure, Line

PLAN = Plan(None, missing="Go is not installed")  # type: ignore[arg-type]


class _Folder(ThreadingHTTPServer):
    """Lists the folder `/`, forever the same way as `frozen` if that is set; takes uploads to it."""

    daemon_threads = True
    folder: Path
    frozen: bytes = b""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Folder

    def do_GET(self) -> None:
        names = "".join(f'{{"name":"{name}"}}' for name in os.listdir(self.server.folder))
        self._answer(200, self.server.frozen or names.encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        (self.server.folder / self.path.rpartition("/")[2]).write_bytes(body)
        self._answer(201, b"{}")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[_Folder]:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    server = _Folder(("127.0.0.1", 0), _Handler)
    server.folder = tmp_path
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def target(server: _Folder) -> Target:
    return Target(server.server_address[1])


def test_a_listing_without_the_change_is_stale(server: _Folder) -> None:
    contents = [(server.folder, request("GET", "/"))]
    fresh = list_changed(target(server), contents, 0.1)
    assert fresh.count > 0
    assert fresh.stale == 0
    server.frozen = b'{"name":"a"}'
    old = list_changed(target(server), contents, 0.1)
    assert old.stale == old.count > 0
    assert sorted(os.listdir(server.folder)) == ["a", "b", "c"]


def test_a_renamed_file_gets_its_name_back(tmp_path: Path) -> None:
    (tmp_path / "first").touch()
    (tmp_path / "second").touch()
    with renamed(tmp_path) as rename:
        names = {rename(), rename(), rename()}
        assert len(names) == 2
        assert "second" in os.listdir(tmp_path)
        assert "first" not in os.listdir(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]


def test_what_comes_and_goes_is_gone_at_the_end(tmp_path: Path) -> None:
    with coming_and_going(tmp_path):
        while not os.listdir(tmp_path):
            pass
    assert os.listdir(tmp_path) == []


def test_entries_are_counted(server: _Folder) -> None:
    seconds, count = list_all(target(server), request("GET", "/"))
    assert seconds > 0
    assert count == 3


@pytest.mark.parametrize("at_end", [False, True])
def test_each_upload_is_sent_and_synced(server: _Folder, at_end: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    files = [f"file-{number}" for number in range(5)]
    requests = [request("POST", f"/{name}", {}, b"content") for name in files]
    paths = [str(server.folder / name) for name in files]
    assert sent_durably(target(server), requests, paths, at_end, 2) > 0
    assert {(server.folder / name).read_bytes() for name in files} == {b"content"}
    folder = str(server.folder)
    assert sorted(path for path in synced if path != folder) == sorted(paths)
    assert synced.count(folder) == (1 if at_end else 5)
    assert synced[-1] == folder


def test_raw_bodies_meet_raw_bodies_and_forms_meet_forms() -> None:
    assert raw(OURS, {})("x").method == "PUT"
    theirs = raw(SFTPGO, {})("x")
    assert (theirs.method, theirs.path) == ("POST", "/api/v2/user/files/upload?path=/x")
    assert raw(NGINX, {})("x").path == "/x"
    assert b'name="data"' in form(OURS, {})("x").before
    assert b'name="filenames"' in form(SFTPGO, {})("x").before


def test_each_peer_has_its_address_of_a_file() -> None:
    assert address(SFTPGO, "/top", "a") == "/api/v2/user/files?path=/a"
    for rclone in (RCLONE, RCLONE_USER):
        assert address(rclone, "/top", "a") == "/%5B/top%5D/a"
    assert address(NGINX, "/top", "a") == "/a"


def test_lines_are_chosen_by_name() -> None:
    assert PLAN.wants("upload")
    some = Plan(None, lines=frozenset({"upload"}))  # type: ignore[arg-type]
    assert some.wants("download", "upload")
    assert not some.wants("download")
    assert len(set(sftpgo.LINES.values())) == len(sftpgo.LINES)


def test_what_fails_does_not_stop_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line("g", "what", Figure(1.0, "s"))

    def fail(_: Plan) -> list[Line]:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(sftpgo, "missing", lambda: "")
    for subject, result in ((listing, fail), (uploads, lambda _: [line])):
        monkeypatch.setattr(subject, "measure", result)
    chosen = frozenset({*listing.LINES, *uploads.LINES})
    found: list[Line] = []
    measured_lines = sftpgo.measure(None, False, lines=chosen)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="listing: no such luck"):
        found.extend(measured_lines)
    assert found == [line]


def test_a_ratio_says_how_many_times_better_portico_is() -> None:
    ours, theirs = Figure(10.0, "x", 2.0, each=1.0), Figure(20.0, "x", 1.0, each=4.0)
    rate, processor, _ = PLAN.rates("what", {OURS: ours, SFTPGO: theirs, NGINX: theirs}, {SFTPGO: 1.0}, 1.0)
    assert (rate.ratio, rate.reached) == (0.5, False)
    assert (processor.ratio, processor.reached) == (4.0, True)
    seconds, *_ = PLAN.times("what", {OURS: ours, SFTPGO: theirs}, {SFTPGO: 1.2})
    assert (seconds.ratio, seconds.reached) == (2.0, True)
    (alone,) = PLAN.rates("what", {OURS: ours}, {SFTPGO: 1.0})
    assert (alone.peer, alone.reached) == ("SFTPGo: Go is not installed", None)


def test_without_go_there_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(peer, "ROOT", tmp_path)
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert "Go is not installed" in peer.missing()
    failing = tmp_path / "go"
    failing.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda _: str(failing))
    assert "no such module" in peer.missing()
    assert not list((tmp_path / ".cache" / "bench").glob(f"sftpgo-{peer.VERSION}"))


def test_what_wrk_says_is_read() -> None:
    said = "Running 2s test @ http://127.0.0.1\n  1 threads and 8 connections\n  2042 requests in 2.00s, 20MB read\n"
    assert parsed(said + "Requests/sec:   1020.75\n") == (1020.75, 2042)
    for wrong in ("  Non-2xx or 3xx responses: 7\n", "  Socket errors: connect 0, read 3\n"):
        with pytest.raises(RuntimeError, match=wrong.strip()):
            parsed(said + wrong + "Requests/sec:   1020.75\n")
    with pytest.raises(RuntimeError, match="unable to connect"):
        parsed("unable to connect")


def test_a_program_that_fails_is_no_figure() -> None:
    output, seconds = measured(["sh", "-c", "echo done"])
    assert output == "done\n"
    assert seconds >= 0
    with pytest.raises(RuntimeError, match="no such luck"):
        measured(["sh", "-c", "echo no such luck >&2; exit 1"])
