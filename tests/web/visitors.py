"""Somebody who uses the page: what a person sees, clicks and types, in a few words."""

import re
from importlib.resources import files
from pathlib import Path

from playwright.sync_api import ConsoleMessage, FilePayload, Locator, Page, Request, expect

from ..gateways import Gateway

SERIOUS = ("serious", "critical")
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()


class Visitor:
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
        """The browser itself writes refused requests to the console; no script can keep it from that."""
        self._expected.append(str(what))

    def check_silence(self) -> None:
        loud = [
            line for line in self.noise if not any(self._is_refusal(line, what) for what in self._expected)
        ]
        assert not loud, f"the console was not silent: {loud}"

    @staticmethod
    def _is_refusal(line: str, what: str) -> bool:
        return line.startswith("error: Failed to load resource") and what in line

    # Signing in

    @property
    def password(self) -> str:
        return self.gateway.password

    def sign_in(self, name: str = "web", password: str | None = None) -> None:
        self.page.get_by_label("User name").fill(name)
        self.page.get_by_label("Password").fill(self.password if password is None else password)
        self.page.keyboard.press("Enter")
        if password is None:
            expect(self.page.locator(".folder-view")).to_be_visible()
            self.settle()

    def settle(self) -> None:
        """Wait until the folder is shown, or it is said why not."""
        expect(self.page.locator(".folder-view:not([aria-busy])")).to_be_visible()

    def user_menu(self, item: str) -> None:
        self.page.locator(".top button[aria-haspopup]").click()
        self.page.get_by_role("menuitem", name=item).click()

    # Looking

    @property
    def grid(self) -> Locator:
        return self.page.get_by_role("grid")

    @property
    def names(self) -> list[str]:
        """The names in sight, from top to bottom."""
        rows: list[str] = self.page.evaluate(
            """() => [...document.querySelectorAll(".grid .canvas > .row:not([hidden])")]
                .sort((a, b) => a.index - b.index).map((row) => row.querySelector("bdi").textContent)"""
        )
        return rows

    def row(self, name: str) -> Locator:
        return self.grid.get_by_role("row").filter(
            has=self.page.locator("bdi", has_text=re.compile(f"^{re.escape(name)}$"))
        )

    def expect_names(self, *names: str) -> None:
        """These, in this order, now or in a moment."""
        for _ in range(100):
            if self.names == list(names):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(self.names)

    @property
    def status(self) -> Locator:
        return self.page.locator(".status")

    @property
    def heading(self) -> Locator:
        return self.page.locator(".folder-view .state h2")

    @property
    def dialog(self) -> Locator:
        return self.page.get_by_role("dialog")

    @property
    def tray(self) -> Locator:
        return self.page.locator(".tray")

    @property
    def active(self) -> Locator:
        """The row that the keyboard is on."""
        return self.page.locator(".row.active:not([hidden]) bdi")

    # Doing

    def open(self, name: str) -> None:
        self.row(name).locator(".open").click()
        expect(self.page.locator(".crumb[aria-current]")).to_have_text(name)
        self.settle()

    def act(self, name: str, action: str) -> None:
        """Choose from the menu of that row."""
        self.row(name).get_by_role("button", name="Actions for").click()
        self.page.get_by_role("menuitem", name=action).click()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def choose_files(self, *files: FilePayload) -> None:
        """As from the dialog behind the upload button."""
        self.page.locator("input[type=file]:not([webkitdirectory])").set_input_files(files)

    def choose_folder(self, folder: Path) -> None:
        self.page.locator("input[webkitdirectory]").set_input_files(folder)

    def drop(self, *paths: Path) -> None:
        """Drag from the desktop onto the page."""
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

    def check_access(self) -> None:
        """axe finds nothing serious on what is shown now."""
        self.page.evaluate(f"window.axe ?? (() => {{ {AXE} }})()")
        found = self.page.evaluate(
            "axe.run({resultTypes: ['violations']}).then((result) => result.violations)"
        )
        serious = [
            f"{violation['id']}: {violation['help']}: {[node['html'] for node in violation['nodes']]}"
            for violation in found
            if violation["impact"] in SERIOUS
        ]
        assert not serious, serious


def file(name: str, content: bytes = b"content", kind: str = "text/plain") -> FilePayload:
    return {"name": name, "mimeType": kind, "buffer": content}
