import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ...client.conftest import running_proxy
from ...gateways import Gateway
from ...servers.proxy import FaultProxy
from ..conftest import Outcome, Portico

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("command") / "home")
    gateway.start()
    for name, rights in (("reader", "list,download"), ("bringer", "upload")):
        words = ("user", "add", name, "--root", "/web", "--rights", rights, "--password-stdin")
        gateway.command(*words, stdin="pass word")
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(running: Gateway) -> Gateway:
    """A gateway without files."""
    running.empty_root()
    return running


@pytest.fixture
def there(gateway: Gateway) -> Path:
    """The local folder behind the root of the user `web`."""
    return gateway.files / "web"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def proxy(gateway: Gateway) -> Iterator[FaultProxy]:
    """A proxy between the command and the gateway, for those who `sign_in` at its port."""
    with running_proxy(gateway) as proxy:
        yield proxy


def sign_in(remote: Portico, gateway: Gateway, port: int) -> None:
    """At another address of the same gateway."""
    url = f"http://127.0.0.1:{port}"
    assert remote("login", url, "--user", "web", "--password-stdin", stdin=gateway.password).code == 0


@pytest.fixture
def password(gateway: Gateway) -> str:
    return gateway.password


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of profiles, isolated from the environment of the test run."""
    for name in ("PORTICO_URL", "PORTICO_KEY", "PORTICO_TOKEN", "PORTICO_PROFILE", "PORTICO_CA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "config" / "portico" / "profiles"


@pytest.fixture
def remote(portico: Portico, gateway: Gateway, config: Path, here: Path, password: str) -> Portico:
    """The command, signed in."""
    outcome = portico("login", gateway.url, "--user", "web", "--password-stdin", stdin=password)
    assert outcome.code == 0, outcome.err
    return portico


@pytest.fixture
def process(remote: Portico) -> Iterator[Start]:
    """The command as a process, signed in."""
    begun: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str, **options: Any) -> "subprocess.Popen[bytes]":
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        begun.append(subprocess.Popen([sys.executable, "-m", "portico", *arguments], **pipes))
        return begun[-1]

    yield begin
    for one in begun:
        if one.poll() is None:
            one.kill()
            one.wait()
        for pipe in (one.stdin, one.stdout, one.stderr):
            if pipe:
                pipe.close()


def make(folder: Path, **files: str) -> None:
    """Files by name, with `__` for a slash, all with the same time."""
    for name, content in files.items():
        file = folder / (name.replace("__", "/") + ".txt")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        os.utime(file, (1_700_000_000, 1_700_000_000))


def tree(folder: Path) -> dict[str, str]:
    """All files below a folder, by their paths."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {str(file.relative_to(folder)): file.read_text() for file in files}


def last_line(outcome: Outcome) -> str:
    return outcome.err.splitlines()[-1]
