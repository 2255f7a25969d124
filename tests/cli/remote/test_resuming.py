"""Large files that another run of the command goes on with."""

import os
import random
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from portico.cli.remote import uploads
from portico.cli.remote.connect import connect
from portico.client.transfers import resumable_upload, tus
from portico.client.transfers import uploads as client_uploads
from portico.client.transfers.downloads import RANGE
from portico.client.transfers.partial_file import PartialFile

from ...gateways import FILES, WAIT, Gateway, wait_until
from ...servers.proxy import Call, FaultProxy, Reply, Silent
from ..conftest import Portico
from .conftest import Start, last_line, sign_in

MIB = 2**20
CONTENT = random.Random(8).randbytes(4 * MIB)
NOT_NOW = Reply(503, {"Retry-After": "3600"}, b'{"code":"unavailable","detail":"Not now.","requestId":"x"}')


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable_upload, "THRESHOLD", MIB)
    monkeypatch.setattr(resumable_upload, "PART", MIB)
    for module in (client_uploads, uploads):
        monkeypatch.setattr(module, "HASHED_BEFORE", MIB - 1)


@pytest.fixture
def large(here: Path) -> Path:
    (here / "folder").mkdir()
    file = here / "folder" / "large.bin"
    file.write_bytes(CONTENT)
    os.utime(file, (1_700_000_000, 1_700_000_000))
    return file


def is_part(call: Call) -> bool:
    return call.method == "PATCH"


def is_later(call: Call) -> bool:
    return is_part(call) and call.headers["upload-offset"] != "0"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interruption_and_once_more(
    process: Start,
    remote: Portico,
    gateway: Gateway,
    proxy: FaultProxy,
    here: Path,
    there: Path,
    number: signal.Signals,
) -> None:
    large = here / "large.bin"
    with open(large, "wb") as file:
        file.write(CONTENT)
        file.truncate(tus.PART * 5 // 4)
    sign_in(remote, gateway, proxy.port)
    proxy.on(is_later, Silent())
    command = process("put", "large.bin", "/")
    wait_until(lambda: any(map(is_later, proxy.calls)), "a part has arrived")
    command.send_signal(number)
    code = command.wait(WAIT)
    assert command.stderr is not None
    said = command.stderr.read().decode()
    if number == signal.SIGINT:
        assert code == 130
        assert said == "A large file was partly uploaded. Run the command again to resume it.\nInterrupted.\n"
    assert not (there / "large.bin").exists()
    sign_in(remote, gateway, gateway.port)
    outcome = remote("put", "--json", "large.bin", "/")
    assert outcome.code == 0, outcome.err
    assert outcome.err.splitlines()[0] == "Resuming large.bin at 80 %"
    assert outcome.data["resumed"] == tus.PART
    assert (there / "large.bin").stat().st_size == large.stat().st_size
    assert (there / "large.bin").read_bytes() == large.read_bytes()
    assert gateway.staged == []


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    "words", [("put", "folder/large.bin", "/folder/"), ("sync", "up", "folder", "/folder")], ids=["put", "sync"]
)
def test_a_failure_and_once_more(
    remote: Portico, gateway: Gateway, proxy: FaultProxy, large: Path, there: Path, words: tuple[str, ...]
) -> None:
    sign_in(remote, gateway, proxy.port)
    proxy.on(is_later, NOT_NOW)
    outcome = remote(*words)
    assert outcome.code == 5
    assert outcome.err == (
        "A large file was partly uploaded. Run the command again to resume it.\nNot now (request x).\n"
    )
    outcome = remote(*words, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.err.splitlines()[0] == "Resuming large.bin at 25 %"
    assert last_line(outcome).startswith("1 uploaded, 3.1 MB in"), "what was sent now"
    stored = outcome.data
    assert stored["resumed"] == MIB
    assert stored["receipt"]
    assert (stored["path"], stored["size"]) == ("/folder/large.bin", len(CONTENT))
    assert (there / "folder" / "large.bin").read_bytes() == CONTENT
    assert (there / "folder" / "large.bin").stat().st_mtime == 1_700_000_000
    assert remote(*words).err.startswith("0 uploaded, 1 skipped")


@pytest.mark.usefixtures("small_parts")
def test_quietly(remote: Portico, gateway: Gateway, proxy: FaultProxy, large: Path, there: Path) -> None:
    sign_in(remote, gateway, proxy.port)
    proxy.on(is_later, NOT_NOW)
    assert remote("put", "-q", "folder/large.bin", "/").code == 5
    outcome = remote("put", "-q", "folder/large.bin", "/")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert (there / "large.bin").read_bytes() == CONTENT


@pytest.mark.usefixtures("small_parts")
def test_a_file_that_has_changed(
    remote: Portico, gateway: Gateway, proxy: FaultProxy, large: Path, there: Path
) -> None:
    sign_in(remote, gateway, proxy.port)
    proxy.on(is_later, NOT_NOW)
    assert remote("put", "folder/large.bin", "/").code == 5
    large.write_bytes(CONTENT[::-1])
    outcome = remote("put", "folder/large.bin", "/")
    assert outcome.code == 0
    assert "Resuming" not in outcome.err
    assert (there / "large.bin").read_bytes() == CONTENT[::-1]
    assert gateway.staged == []


@pytest.mark.usefixtures("small_parts")
def test_without_resuming(remote: Portico, gateway: Gateway, proxy: FaultProxy, large: Path, there: Path) -> None:
    sign_in(remote, gateway, proxy.port)
    proxy.on(lambda call: call.method in ("PUT", "POST"), NOT_NOW)
    outcome = remote("put", "--no-resume", "folder/large.bin", "/")
    assert (outcome.code, outcome.err) == (5, "Not now (request x).\n")
    assert gateway.staged == []
    assert remote("put", "--no-resume", "folder/large.bin", "/").code == 0
    assert not any(map(is_part, proxy.calls))
    assert (there / "large.bin").read_bytes() == CONTENT


@pytest.mark.usefixtures("small_parts")
def test_verified(remote: Portico, gateway: Gateway, proxy: FaultProxy, large: Path, there: Path) -> None:
    sign_in(remote, gateway, proxy.port)
    outcome = remote("put", "--verify", "--json", "folder/large.bin", "/")
    assert outcome.code == 0, outcome.err
    assert outcome.data["size"] == len(CONTENT)
    assert all("upload-checksum" in call.headers for call in proxy.calls if is_part(call))
    assert (there / "large.bin").read_bytes() == CONTENT


# Downloads


def is_later_range(call: Call) -> bool:
    return call.method == "GET" and not call.headers.get("range", "bytes=0-").startswith("bytes=0-")


@pytest.mark.parametrize("words", ["get /d/large.bin", "sync down --verify /d ."])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_download_and_once_more(
    process: Start,
    remote: Portico,
    gateway: Gateway,
    proxy: FaultProxy,
    here: Path,
    there: Path,
    number: signal.Signals,
    words: str,
) -> None:
    content = CONTENT * 5
    with gateway.signed_in() as client:
        client.put(f"{FILES}/d/large.bin", content=content, headers={"Want-Repr-Digest": "sha-256=1"})
    sign_in(remote, gateway, proxy.port)
    proxy.on(is_later_range, Silent())
    command = process(*words.split())
    wait_until(lambda: any(map(is_later_range, proxy.calls)), "the first range has arrived")
    command.send_signal(number)
    code = command.wait(WAIT)
    assert command.stderr is not None
    if number == signal.SIGINT:
        said = b"A large file was partly downloaded. Run the command again to resume it.\nInterrupted.\n"
        assert (code, command.stderr.read()) == (130, said)
    assert os.listdir(here) == [".large.bin.portico-part"]
    sign_in(remote, gateway, gateway.port)
    outcome = remote(*words.split(), "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.err.splitlines()[0] == f"Resuming large.bin at {RANGE * 100 // len(content)} %"
    assert "not verified" not in outcome.err
    assert outcome.data["resumed"] == RANGE
    assert (here / "large.bin").read_bytes() == content
    assert os.listdir(here) == ["large.bin"]


def half_fetched(target: str, size: int, etag: str | None) -> PartialFile:
    """A partial file as an earlier run has left it, but with content that tells it apart."""
    part = PartialFile(target, keep=True)
    with open(part.path, "r+b") as file:
        file.write(b"\0" * RANGE)
    part.size, part.etag = size, etag
    part.add(0, RANGE)
    part.close()
    return part


@pytest.mark.parametrize("case", ["--no-resume", "of a link", "of somebody else", "another version"])
def test_only_our_own_part_of_the_same_version_is_resumed(
    remote: Portico, gateway: Gateway, here: Path, there: Path, case: str
) -> None:
    content = CONTENT * 5
    (there / "large.bin").write_bytes(content)
    with connect(SimpleNamespace(profile=None)) as client:
        etag = client.head("/large.bin").etag
    part = half_fetched("large.bin", len(content), "another" if case == "another version" else etag)
    before = Path(part.path).read_bytes()
    if case == "of a link":
        os.rename(part.path, here / "elsewhere")
        os.symlink("elsewhere", part.path)
    elif case == "of somebody else":
        os.chown(part.path, 65534, 65534)
    outcome = remote("get", "/large.bin", *(["--no-resume"] if case == "--no-resume" else []))
    assert outcome.code == 0, outcome.err
    assert "Resuming" not in outcome.err
    assert (here / "large.bin").read_bytes() == content
    if case == "another version":
        assert not os.path.lexists(part.path)
    else:
        assert Path(part.path).read_bytes() == before  # it is not touched
