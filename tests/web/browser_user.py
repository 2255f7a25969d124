"""A user in a browser: what they see, click and type, as short methods."""

import json
import re
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from playwright.sync_api import ConsoleMessage, FileChooser, FilePayload, Locator, Page, Request, expect

from ..gateways import Gateway

SERIOUS = ("serious", "critical")
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
# Colours are final once the transitions have ended; a spinner never ends. All rows of a list are alike: ten are enough.
CHECK = """async (rules) => {
  const finite = document.getAnimations().filter((animation) => animation.effect.getTiming().iterations !== Infinity);
  await Promise.allSettled(finite.map((animation) => animation.finished));
  const context = {include: [["html"]], exclude: [[".canvas > :nth-child(n + 11)"]]};
  // A finding is told by its HTML alone.
  const less = {resultTypes: ["violations"], selectors: false, iframes: false, preload: false};
  const result = await axe.run(context, {...less, ...(rules.length ? {runOnly: rules} : {})});
  return result.violations;
}"""


class BrowserUser:
    def __init__(self, gateway: Gateway, page: Page) -> None:
        self.gateway = gateway
        self.page = page
        self.noise: list[str] = []
        self.requests: list[str] = []
        self._expected: list[str] = []
        self.watch(page)

    def watch(self, page: Page) -> None:
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.noise.append(f"error: {error}"))
        page.on("request", self._asked)

    def _heard(self, message: ConsoleMessage) -> None:
        self.noise.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)
        if not request.url.startswith((self.gateway.url, "blob:", "data:")):
            self.noise.append(f"asked another origin: {request.url}")

    def expect_refusal(self, what: int | str) -> None:
        """Allow a refused request, which the browser itself writes to the console."""
        self._expected.append(str(what))

    def check_silence(self) -> None:
        loud = [
            line
            for line in self.noise
            if not self._is_closed_connection(line) and not any(self._is_refusal(line, what) for what in self._expected)
        ]
        assert not loud, f"the console was not silent: {loud}"

    @staticmethod
    def _is_closed_connection(line: str) -> bool:
        """A kept connection that the gateway closed when the browser was about to use it: the page asks again."""
        return line == "error: Failed to load resource: net::ERR_EMPTY_RESPONSE"

    @staticmethod
    def _is_refusal(line: str, what: str) -> bool:
        return line.startswith("error: Failed to load resource") and what in line

    # Signing in

    @property
    def password(self) -> str:
        return self.gateway.password

    def sign_in(self, name: str = "web", password: str | None = None) -> None:
        self.page.get_by_label("Username").fill(name)
        self.page.get_by_label("Password").fill(self.password if password is None else password)
        self.page.keyboard.press("Enter")
        if password is None:
            expect(self.page.locator(".folder-view")).to_be_visible()
            self.settle()

    def store_session(self) -> None:
        """Begin with the session of `web`, as after a reload: the form takes half of the time of a short test."""
        asked = int(time.time() * 1000)
        answer = self.gateway.login()
        stored = {
            "username": "web",
            "access": answer["access_token"],
            "refresh": answer["refresh_token"],
            "expires": asked + answer["expires_in"] * 1000,
            "lifetime": answer["expires_in"] * 1000,
            "rights": answer["scope"].split(),
        }
        # Once: a reload must not bring back a session that has ended. A name outlives a reload.
        self.page.add_init_script(
            f"if (!window.name) {{ window.name = 'tab'; sessionStorage['portico.session'] = {json.dumps(json.dumps(stored))}; }}"
        )

    def settle(self) -> None:
        """Wait until the folder is shown, or an error."""
        expect(self.page.locator(".folder-view:not([aria-busy])")).to_be_visible()

    def user_menu(self, item: str) -> None:
        self.page.locator(".app-bar button[aria-haspopup]").click()
        self.page.get_by_role("menuitem", name=item).click()

    # Looking

    @property
    def grid(self) -> Locator:
        return self.page.get_by_role("grid")

    @property
    def names(self) -> list[str]:
        """The visible names, from top to bottom."""
        rows: list[str] = self.page.evaluate(
            """() => [...document.querySelectorAll(".grid .canvas > .row:not([hidden])")]
                .sort((a, b) => a.dataset.index - b.dataset.index).map((row) => row.querySelector("bdi").textContent)"""
        )
        return rows

    def row(self, name: str) -> Locator:
        return self.grid.get_by_role("row").filter(
            has=self.page.locator("bdi", has_text=re.compile(f"^{re.escape(name)}$"))
        )

    def expect_names(self, *names: str) -> None:
        """Expect these names, in this order, now or in a moment."""
        try:
            self.wait_until(lambda: self.names == list(names))
        except AssertionError:
            assert self.names == list(names)

    @property
    def status(self) -> Locator:
        return self.page.locator(".status")

    @property
    def heading(self) -> Locator:
        return self.page.locator(".folder-view .placeholder h2")

    @property
    def dialog(self) -> Locator:
        return self.page.get_by_role("dialog")

    @property
    def upload_panel(self) -> Locator:
        return self.page.locator(".upload-panel")

    @property
    def active(self) -> Locator:
        """The name in the active row."""
        return self.page.locator(".row.active:not([hidden]) bdi")

    # Doing

    def open(self, name: str) -> None:
        self.row(name).locator(".open").click()
        expect(self.page.locator(".crumb[aria-current]")).to_have_text(name)
        self.settle()

    def act(self, name: str, action: str) -> None:
        """Choose from the menu of a row."""
        self.row(name).get_by_role("button", name="Actions for").click()
        self.page.get_by_role("menuitem", name=action, exact=True).click()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def close_preview(self) -> None:
        """Close it, and wait for the step back to the folder's address, after which the page shows the folder afresh: a
        search or preview opened before would be closed by it."""
        self.press("Escape")
        expect(self.dialog).to_have_count(0)
        self.wait_until(lambda: self.page.evaluate("!history.state?.preview"))

    def choose_files(self, *files: FilePayload | Path) -> None:
        """Pick files as with the upload button."""
        self.page.locator("input[type=file]:not([webkitdirectory])").set_input_files(files)  # type: ignore[arg-type]

    def chooser_by_key(self, key: str) -> FileChooser:
        """What the key opens. A browser that is slow to answer a key takes it for nobody's wish, and opens nothing; then
        the key is pressed again."""
        opened: list[FileChooser] = []
        self.page.on("filechooser", lambda chooser: opened.append(chooser))
        for _ in range(100):
            self.press(key)
            self.page.wait_for_timeout(1000)
            if opened:
                break
        return opened[0]

    def choose_folder(self, folder: Path) -> None:
        self.page.locator("input[webkitdirectory]").set_input_files(folder)

    def drop(self, *paths: Path) -> None:
        """Drag files from the desktop onto the page."""
        session = self.page.context.new_cdp_session(self.page)
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            session.send("Input.dispatchDragEvent", {"type": kind, "x": 600, "y": 500, "data": data})
        session.detach()

    def slow_down(self, bytes_per_second: int) -> None:
        session = self.page.context.new_cdp_session(self.page)
        session.send("Network.enable")
        conditions = {"offline": False, "latency": 0, "downloadThroughput": -1}
        session.send("Network.emulateNetworkConditions", {**conditions, "uploadThroughput": bytes_per_second})

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait for something that only Python sees; the browser's events go on meanwhile."""
        for _ in range(6000):  # two minutes at least: what takes longer hangs
            if condition():
                return
            self.page.wait_for_timeout(20)
        raise AssertionError("what was waited for did not happen")

    def check_access(self, *rules: str) -> None:
        """Expect no serious findings of axe on what is shown now, by these rules or by all."""
        if not self.page.evaluate("Boolean(window.axe)"):  # half a megabyte is not sent again
            self.page.evaluate(AXE)
        found = self.page.evaluate(CHECK, list(rules))
        serious = [
            f"{violation['id']}: {violation['help']}: {[node['html'] for node in violation['nodes']]}"
            for violation in found
            if violation["impact"] in SERIOUS
        ]
        assert not serious, serious


def zeros(folder: Path, name: str, size: int) -> Path:
    """A file of zeros that the browser reads itself. What `file` makes goes through three processes as JSON."""
    (folder / name).write_bytes(bytes(size))
    return folder / name


def file(name: str, content: bytes = b"content", kind: str = "text/plain") -> FilePayload:
    return {"name": name, "mimeType": kind, "buffer": content}
