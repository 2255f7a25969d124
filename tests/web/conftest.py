import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from ..gateways import Gateway
from ..servers import apt
from .browser_user import BrowserUser

HEADLESS_SHELL = "/usr/bin/chromium-headless-shell"
"""Chromium without what surrounds the page: opening one takes a third of the CPU."""
CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Pages of one context share a process: starting one takes half of the CPU of opening a page.
    "--renderer-process-limit=1",
    "--disable-site-isolation-trials",
    "--disable-features=IsolateOrigins,site-per-process",
    # No other host can be resolved.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]

PASSWORD = "pass word"
OTHERS = {
    "reader": "list,download",
    "dropper": "upload",
    "sender": "list,upload",
    "sharer": "list,download,upload,overwrite,share",
    "phone": "list,download,upload,overwrite,share",
}
"""More users of the same folder, with other rights than `web`."""

USUAL: dict[str, Any] = {"locale": "en-GB", "viewport": {"width": 1280, "height": 800}}

PATIENCE = 120_000
"""Milliseconds after which a wait is a hang."""

OpenPage = Callable[..., BrowserUser]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The system's Chromium. It is closed after this package, because its driver occupies the thread's event loop."""
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_program(), args=FLAGS)
        yield browser
        browser.close()


def _program() -> str:
    try:
        apt.ensured("chromium-headless-shell", lambda: os.path.exists(HEADLESS_SHELL))
    except (pytest.fail.Exception, subprocess.CalledProcessError):
        apt.ensured("chromium", lambda: os.path.exists(CHROMIUM))
        return CHROMIUM
    return HEADLESS_SHELL


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("page") / "home")
    gateway.start()
    for name, rights in OTHERS.items():
        gateway.command(
            "user", "add", name, "--root", "/web", "--rights", rights, "--password-stdin", stdin=PASSWORD + "\n"
        )
    yield gateway
    gateway.kill()


@pytest.fixture
def gateway(running: Gateway) -> Gateway:
    """One gateway for all tests of the page; the user's folder is empty."""
    running.empty_root()
    return running


@pytest.fixture
def root(gateway: Gateway) -> Path:
    """The root of the user `web`, on disk."""
    return gateway.files / "web"


class UsualContext:
    """For the first user of each test who has no wishes. Between tests, a blank page keeps its process alive."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._blank: Page | None = None

    def get(self) -> BrowserContext:
        if self._blank is None:
            self._blank = self._browser.new_context(**USUAL).new_page()
        return self._blank.context

    def forget(self, origins: set[str]) -> None:
        """Make it like a new one, or leave it if its clock has been replaced."""
        assert self._blank
        context = self._blank.context
        for page in context.pages:
            if page is not self._blank:
                page.close()
        if not self._blank.evaluate("/native code/.test(Date)"):
            context.close()
            self._blank = None
            return
        context.unroute_all()
        context.set_offline(False)
        context.clear_cookies()
        context.clear_permissions()
        session = context.new_cdp_session(self._blank)
        session.send("Network.clearBrowserCache")
        for origin in origins:
            session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        session.detach()


@pytest.fixture(scope="package")
def usual_context(browser: Browser) -> UsualContext:
    return UsualContext(browser)


@pytest.fixture
def open_page(browser: Browser, usual_context: UsualContext) -> Iterator[OpenPage]:
    """Opens the page in a browser context of its own, if wanted with the session of `web`. At the end, expects no console
    output and no requests to other origins."""
    contexts: list[BrowserContext] = []
    users: list[BrowserUser] = []
    shared: set[str] = set()

    def begin(gateway: Gateway, address: str = "/", *, signed_in: bool = False, **options: object) -> BrowserUser:
        if users or options:
            context = browser.new_context(**{**USUAL, **options})
            contexts.append(context)
        else:
            context = usual_context.get()
            shared.add(gateway.url)
        context.set_default_timeout(PATIENCE)
        user = BrowserUser(gateway, context.new_page())
        users.append(user)
        if signed_in:
            user.store_session()
        user.page.goto(gateway.url + address)
        if signed_in:
            user.settle()
        return user

    yield begin
    for context in contexts:
        context.close()
    if shared:
        usual_context.forget(shared)
    for user in users:
        user.check_silence()


@pytest.fixture
def user(open_page: OpenPage, gateway: Gateway) -> BrowserUser:
    """The user `web`, signed in, in the root folder."""
    return open_page(gateway, signed_in=True)
