import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from ..gateways import Gateway
from .visitors import Visitor

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Whatever is not the gateway does not exist.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]

PASSWORD = "pass word"
OTHERS = {"reader": "list,download", "dropper": "upload", "sender": "list,upload"}
"""Users beside `web` who see the same folder and may do less, by their rights."""

Visit = Callable[..., Visitor]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The system's Chromium. It ends with this package: while it lives, its driver holds the thread's event loop."""
    expect.set_options(timeout=15_000)
    # Several test processes may come here at once on a machine that has no browser yet.
    with open(os.path.join(tempfile.gettempdir(), "portico-chromium.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(CHROMIUM):
            _install_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def _install_chromium() -> None:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.fail(f"The tests of the page need Chromium at {CHROMIUM}; install the package 'chromium'.")
    quiet = {"env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, "stdout": subprocess.DEVNULL}
    for arguments in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "chromium"]):
        subprocess.run(["apt-get", *arguments], check=True, **quiet)  # type: ignore[call-overload]


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("page") / "home")
    gateway.start()
    for name, rights in OTHERS.items():
        gateway.command(
            "user",
            "add",
            name,
            "--root",
            "/web",
            "--rights",
            rights,
            "--password-stdin",
            stdin=PASSWORD + "\n",
        )
    yield gateway
    gateway.kill()


@pytest.fixture
def gateway(running: Gateway) -> Gateway:
    """One gateway for all tests of the page, with an empty folder for its user."""
    running.empty_root()
    return running


@pytest.fixture
def root(gateway: Gateway) -> Path:
    """What the user `web` sees as `/`, on disk."""
    return gateway.files / "web"


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Opens the page as somebody new; in the end its console must have been silent, and no other origin asked."""
    contexts: list[BrowserContext] = []
    visitors: list[Visitor] = []

    def begin(gateway: Gateway, address: str = "/", **options: object) -> Visitor:
        usual = {"locale": "en-GB", "viewport": {"width": 1280, "height": 800}}
        context = browser.new_context(**{**usual, **options})  # type: ignore[arg-type]
        context.set_default_timeout(15_000)
        contexts.append(context)
        visitor = Visitor(gateway, context.new_page())
        visitors.append(visitor)
        visitor.page.goto(gateway.url + address)
        return visitor

    yield begin
    for context in contexts:
        context.close()
    for visitor in visitors:
        visitor.check_silence()


@pytest.fixture
def visitor(visit: Visit, gateway: Gateway) -> Visitor:
    """The user `web`, signed in, at the root."""
    visitor = visit(gateway)
    visitor.sign_in()
    return visitor
