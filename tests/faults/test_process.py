"""The gateway as a process: started, used by strangers, killed, restarted."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from ..gateways import FILES, WAIT, Gateway, RunningUpload, free_port, lives, names, wait_until
from .conftest import Start

MUCH = b"x" * 4 * 2**20


def run(line: str) -> str:
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_printed_lines_work_as_pasted(start: Start, tls: bool) -> None:
    gateway = start(tls=tls)
    lines = re.findall(r"^\s*((?:TOKEN=|curl |echo ).*)$", gateway.output, re.MULTILINE)
    assert len(lines) == 3
    token, listing, upload = lines
    assert '"content":[' in run(f"{token}\n{listing}")
    assert run(f"{token}\n{upload}") == "204\n"
    assert '"hello.txt"' in run(f"{token}\n{listing}")


def test_a_new_interpreter_sets_up_a_new_home_and_serves(tmp_path: Path) -> None:
    """As an administrator starts it; all other gateways are forked, with a home that is set up."""
    gateway = Gateway(tmp_path / "home")
    command = [sys.executable, "-m", "portico", "--home", str(gateway.home)]
    with (
        (tmp_path / "output.txt").open("wb") as output,
        subprocess.Popen([*command, "serve", "--port", str(gateway.port)], stdout=output) as process,
    ):
        try:
            wait_until(lambda: process.poll() is not None or gateway.answers(), "the gateway has started")
            with gateway.signed_in() as client:
                assert client.post(f"{FILES}/", files={"data": ("a.txt", b"x")}).status_code == 204
                assert names(client) == ["a.txt"]
        finally:
            process.terminate()
        assert process.wait(WAIT) == 0


def test_uploads_and_downloads_over_tls(start: Start, tmp_path: Path) -> None:
    gateway = start(tls=True)
    content = bytes(range(256)) * 20_000
    with gateway.signed_in() as client:
        assert client.post(f"{FILES}/a/b", files={"data": ("x.bin", content)}).status_code == 204
        assert names(client, "a/b") == ["x.bin"]
        answer = client.get(f"{FILES}/a/b/x.bin")
    assert answer.content == content
    assert answer.headers["Strict-Transport-Security"]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_refusal_reaches_a_client_that_is_still_sending(start: Start, tls: bool, tmp_path: Path) -> None:
    gateway = start(tls=tls)
    large = tmp_path / "large"
    large.write_bytes(bytes(30 * 2**20))
    trust = f"--cacert {gateway.certificate}" if tls else ""
    curl = f"curl -sS {trust} -o /dev/null -w '%{{http_code}} %{{size_upload}}' -F data=@{large} {gateway.url}{FILES}/"
    status, sent = run(f"{curl} -H 'Expect:'").split()
    assert status == "401"
    assert int(sent) > 30 * 2**20
    assert run(f"{curl} -H 'Expect: 100-continue'") == "401 0"


def test_a_gateway_sees_what_commands_write(gateway: Gateway) -> None:
    """Both have the same SQLite file open, which depends on locks that a process loses by closing any descriptor of it."""
    for number in range(4):
        user = f"user-{number}"
        gateway.command("user", "add", user, "--root", "/web", "--password-stdin", stdin="pass word")
        assert gateway.login(user, "pass word")["access_token"]


def test_vanished_client_leaves_nothing(shared_gateway: Gateway) -> None:
    gateway = shared_gateway
    with gateway.signed_in() as client:
        client.post(f"{FILES}/", files={"data": ("kept.txt", b"old")})
        upload = RunningUpload(gateway, gateway.login()["access_token"])
        upload.begin("kept.txt", MUCH)
        wait_until(lambda: gateway.staged, "the upload is under way")
        assert names(client) == ["kept.txt"]
        upload.vanish()
        wait_until(lambda: not gateway.staged, "the left-over is gone")
        assert client.get(f"{FILES}/kept.txt").content == b"old"


def test_killed_gateway_leaves_nothing(gateway: Gateway) -> None:
    with gateway.signed_in() as client:
        client.post(f"{FILES}/", files={"data": ("kept.txt", b"old")})
    upload = RunningUpload(gateway, gateway.login()["access_token"])
    upload.begin("kept.txt", MUCH)
    wait_until(lambda: gateway.staged, "the upload is under way")
    gateway.kill()
    upload.vanish()
    assert gateway.staged
    gateway.start()
    wait_until(lambda: not gateway.staged, "the left-over is swept")
    with gateway.signed_in() as client:
        assert names(client) == ["kept.txt"]
        assert client.get(f"{FILES}/kept.txt").content == b"old"


def test_files_completed_before_the_kill_stay(gateway: Gateway) -> None:
    upload = RunningUpload(gateway, gateway.login()["access_token"])
    upload.begin("first.txt", b"whole")
    upload.begin("second.txt", MUCH)
    wait_until(lambda: gateway.staged, "the second file is under way")
    gateway.kill()
    upload.vanish()
    gateway.start()
    with gateway.signed_in() as client:
        assert names(client) == ["first.txt"]
        assert client.get(f"{FILES}/first.txt").content == b"whole"


def test_truncated_body_names_what_is_stored(shared_gateway: Gateway) -> None:
    gateway = shared_gateway
    with gateway.signed_in() as client:
        body = (
            b'--b\r\nContent-Disposition: form-data; name="data"; filename="one"\r\n\r\n1\r\n'
            b'--b\r\nContent-Disposition: form-data; name="data"; filename="two"\r\n\r\n2'
        )
        answer = client.post(f"{FILES}/", content=body, headers={"Content-Type": "multipart/form-data; boundary=b"})
        assert answer.status_code == 400
        assert (answer.json()["stored"], answer.json()["failed"]) == (["one"], ["two"])
        assert names(client) == ["one"]


def test_tokens_and_cursors_survive_a_restart(gateway: Gateway) -> None:
    with gateway.signed_in() as client:
        for name in ("a", "b", "c"):
            client.post(f"{FILES}/", files={"data": (name, b"")})
        cursor = client.get(f"{FILES}/?size=2").json()["nextCursor"]
        assert gateway.stop() == 0
        gateway.start()
        answer = client.get(f"{FILES}/", params={"cursor": cursor})
        assert [entry["name"] for entry in answer.json()["content"]] == ["c"]


def test_stop_waits_for_a_running_upload(gateway: Gateway) -> None:
    upload = RunningUpload(gateway, gateway.login()["access_token"])
    upload.begin("slow.txt", MUCH)
    wait_until(lambda: gateway.staged, "the upload is under way")
    assert gateway.process is not None
    gateway.process.send_signal(signal.SIGTERM)
    wait_until(lambda: not _takes_connections(gateway), "the gateway is stopping")
    assert upload.finish() == 204
    assert gateway.process.wait(WAIT) == 0
    assert (gateway.files / "web" / "slow.txt").read_bytes() == MUCH


def _takes_connections(gateway: Gateway) -> bool:
    try:
        socket.create_connection(("127.0.0.1", gateway.port), WAIT).close()
    except ConnectionError:
        return False
    return True


def test_disabled_user_is_soon_out_on_every_worker(start: Start) -> None:
    gateway = start("--workers", "2")
    token = gateway.login()["access_token"]

    def status() -> int:
        with gateway.client(headers={"Authorization": f"Bearer {token}"}) as client:
            return client.get(f"{FILES}/").status_code

    assert {status() for _ in range(10)} == {200}
    gateway.command("user", "disable", "web")
    wait_until(lambda: {status() for _ in range(20)} == {401}, "every worker refuses the token")


@pytest.mark.parametrize("by", ["session", "key"])
@pytest.mark.parametrize("what", ["file", "zip"])
def test_a_download_that_loses_its_right_is_cut_off_without_a_traceback(start: Start, what: str, by: str) -> None:
    gateway = start()
    (gateway.files / "web" / "box").mkdir()
    with (gateway.files / "web" / "box" / "large").open("wb") as file:
        file.truncate(4 * 2**30)
    token = gateway.login()["access_token"]
    if by == "key":
        made = gateway.command("key", "add", "web", "--name", "k", "--rights", "list,download", "--expires", "1d")
        [token] = re.findall(r"pk_\w+", made)
    address = f"{FILES}/box/large" if what == "file" else f"{FILES}/box?action=ZIP"
    with (
        gateway.client(headers={"Authorization": f"Bearer {token}"}) as client,
        client.stream("GET", address) as answer,
    ):
        assert answer.status_code == 200
        body = answer.iter_bytes()
        next(body)
        gateway.command("user", "disable", "web")
        with pytest.raises(httpx2.RemoteProtocolError):
            for _ in body:
                pass
    requests = re.compile(r'"path":"[^"]*/box.*"event":"request"|"event":"request".*"path":"[^"]*/box')
    wait_until(lambda: requests.search(gateway.output), "the request is logged")
    [line] = [json.loads(line) for line in gateway.output.splitlines() if '"broke-off"' in line]
    assert (line["level"], line["code"]) == ("info", "not-signed-in")
    assert "disabled" in line["detail"]
    assert "Traceback" not in gateway.output
    assert '"level":"error"' not in gateway.output


def test_killed_worker_is_replaced(start: Start) -> None:
    gateway = start("--workers", "2")
    with gateway.signed_in() as client:
        victim = gateway.workers()[0]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: len(gateway.workers()) == 2 and victim not in gateway.workers(), "another worker has come")
    with gateway.signed_in() as client:
        assert names(client) == []


def test_crashes_in_a_row_do_not_end_the_gateway(start: Start) -> None:
    gateway = start("--workers", "2")
    for _ in range(3):
        victim = gateway.workers()[0]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: len(set(gateway.workers()) - {victim}) == 2, "another worker has come")  # noqa: B023
    wait_until(gateway.answers, "it answers")


def test_workers_end_with_the_main_process(start: Start) -> None:
    """Also those that were replaced, and in the middle of requests: the port is free for the next start."""
    gateway = start("--workers", "2")
    assert gateway.process is not None
    with gateway.signed_in() as client:
        client.post(f"{FILES}/", files={"data": ("kept.txt", b"old")})
    uploads = [RunningUpload(gateway, gateway.login()["access_token"])]
    uploads[0].begin("kept.txt", MUCH)
    wait_until(lambda: gateway.staged, "the upload is under way")
    retired = gateway.workers()
    gateway.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(set(gateway.workers()) - set(retired)) == 2, "the workers are replaced")
    uploads.append(RunningUpload(gateway, gateway.login()["access_token"]))
    uploads[1].begin("new.txt", MUCH)
    wait_until(lambda: len(gateway.staged) == 2, "the next upload is under way")
    workers = gateway.workers()
    assert set(workers) & set(retired)
    gateway.process.kill()
    gateway.process.wait(WAIT)
    gateway.start()
    wait_until(lambda: not any(map(lives, workers)), "no worker is left")
    with gateway.signed_in() as client:
        assert names(client) == ["kept.txt"]
        assert client.get(f"{FILES}/kept.txt").content == b"old"
    wait_until(lambda: not gateway.staged, "the left-over is swept")
    for upload in uploads:
        upload.vanish()


_ORPHAN = """
import ctypes, multiprocessing, os, sys, time
from portico.server import worker
worker.KILL_WITH_PARENT = False
def child():
    worker._end_with_parent()
    os.write(1, b"%d\\n" % os.getpid())  # at once: the other child has the same pipe
    time.sleep(600)
for _ in range(2):
    multiprocessing.Process(target=child).start()
time.sleep(600)
"""


def test_a_worker_notices_by_itself_that_its_parent_is_gone() -> None:
    """Where the kernel does not kill it."""
    with subprocess.Popen([sys.executable, "-c", _ORPHAN], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        try:
            workers = [int(parent.stdout.readline()) for _ in range(2)]
            assert all(map(lives, workers))
        finally:
            parent.kill()
    wait_until(lambda: not any(map(lives, workers)), "the workers have ended")


def test_a_home_has_one_gateway(gateway: Gateway) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        gateway.command("serve", "--port", str(free_port()))
    assert refused.value.returncode == 1
    assert refused.value.stderr == (
        f"Another gateway is running on the home {gateway.home}; stop it first, or give another home with --home DIR.\n"
    )
    gateway.command("user", "list")  # commands are not kept out
    assert gateway.process is not None
    [worker] = gateway.workers()
    os.kill(worker, signal.SIGSTOP)  # it cannot be in the way, however long it takes to end
    gateway.process.kill()
    gateway.process.wait(WAIT)
    gateway.start()
    assert gateway.answers()


def test_half_closed_body_gets_an_answer(shared_gateway: Gateway) -> None:
    gateway = shared_gateway
    upload = RunningUpload(gateway, gateway.login()["access_token"])
    upload.begin("whole.txt", b"1")
    upload.begin("cut.txt", b"2")
    answer = upload.half_close()
    assert b" 400 " in answer.splitlines()[0]
    assert b'"stored":["whole.txt"],"failed":["cut.txt"]' in answer
    assert (gateway.files / "web" / "whole.txt").read_bytes() == b"1"


MANY = 20_000
"""Files of a tree: to copy them takes seconds on any machine."""


class RunningCopy:
    """A large tree that is being copied to `/copy`."""

    def __init__(self, gateway: Gateway) -> None:
        self._copy = gateway.files / "web" / "copy"
        tree = gateway.files / "web" / "tree"
        tree.mkdir(parents=True)
        for number in range(MANY):
            (tree / str(number)).touch()
        token = gateway.login()["access_token"]
        self._socket = socket.create_connection(("127.0.0.1", gateway.port))
        self._socket.sendall(
            f"POST {FILES}/tree?action=COPY&target=/copy HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
            f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        wait_until(lambda: self.copied, "the copy is under way")

    @property
    def copied(self) -> int:
        return len(os.listdir(self._copy)) if self._copy.exists() else 0

    def vanish(self) -> None:
        self._socket.close()

    def answer(self) -> bytes:
        self._socket.settimeout(WAIT)
        answer = self._socket.recv(65536)
        self._socket.close()
        return answer


def test_a_copy_ends_with_its_client(gateway: Gateway) -> None:
    copy = RunningCopy(gateway)
    copy.vanish()
    wait_until(lambda: '"interrupted"' in (gateway.home / "audit.log").read_text(), "the copy has ended")
    assert 0 < copy.copied < MANY
    assert not gateway.staged


def test_a_copy_ends_at_a_stop(gateway: Gateway) -> None:
    copy = RunningCopy(gateway)
    assert gateway.process is not None
    gateway.process.send_signal(signal.SIGTERM)
    assert copy.answer().startswith(b"HTTP/1.1 503 ")
    assert gateway.process.wait(WAIT) == 0
    assert 0 < copy.copied < MANY
    assert not gateway.staged
