"""Firefox, driven by WebDriver BiDi over its own WebSocket: the system's Firefox needs no other driver for it.

Playwright drives a Firefox of its own build, or one that is newer than Debian's."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from ..gateways import WAIT

KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "Home": "\ue011", "ArrowDown": "\ue015"}
# What a page may not notice: a mouse is there, and nothing is asked of other hosts.
PREFERENCES = """
user_pref("ui.primaryPointerCapabilities", 6);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("app.normandy.enabled", false);
user_pref("browser.safebrowsing.update.enabled", false);
user_pref("services.settings.server", "data:,");
"""


class Firefox:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._calls = 0
        self._tab = ""
        self._loads = 0
        self.requests: list[str] = []
        self.noise: list[str] = []
        """What the console has, without plain information."""

    async def begin(self) -> None:
        await self.call("session.new", capabilities={})
        await self.call(
            "session.subscribe", events=["log.entryAdded", "network.beforeRequestSent", "browsingContext.load"]
        )
        self._tab = (await self.call("browsingContext.create", type="tab"))["context"]

    async def call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._calls += 1
        await self._socket.send_json({"id": self._calls, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json(timeout=WAIT)
            if message["type"] == "event":
                self._heard(message["method"], message["params"])
            elif message["id"] == self._calls:
                assert message["type"] == "success", message
                return dict(message["result"])

    def _heard(self, event: str, parameters: dict[str, Any]) -> None:
        if event == "network.beforeRequestSent" and parameters["context"] == self._tab:
            self.requests.append(parameters["request"]["url"])
        elif event == "browsingContext.load" and parameters["context"] == self._tab:
            self._loads += 1
        elif event == "log.entryAdded" and parameters["level"] in ("warn", "error"):
            self.noise.append(parameters["text"])

    async def resize(self, width: int, height: int) -> None:
        await self.call("browsingContext.setViewport", context=self._tab, viewport={"width": width, "height": height})

    async def go(self, url: str) -> None:
        await self.call("browsingContext.navigate", context=self._tab, url=url, wait="complete")

    async def reload(self) -> None:
        # Its own wait ends too early, with what the old document does to its history while it is unloaded.
        loads = self._loads
        await self.call("browsingContext.reload", context=self._tab, wait="none")
        async with asyncio.timeout(WAIT):
            while self._loads == loads:
                await self.call("browsingContext.getTree")
                await asyncio.sleep(0.02)

    async def evaluate(self, expression: str) -> Any:
        answer = await self.call(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await ({expression})))()",
            target={"context": self._tab},
            awaitPromise=True,
            userActivation=True,
        )
        assert answer["type"] == "success", answer
        return json.loads(answer["result"].get("value") or "null")

    async def wait_for(self, expression: str) -> Any:
        async with asyncio.timeout(WAIT):
            while not (value := await self.evaluate(expression)):
                await asyncio.sleep(0.02)
        return value

    async def press(self, *keys: str) -> None:
        """Keys by their name, or text."""
        for text in keys:
            actions = [
                {"type": kind, "value": key}
                for key in ([KEYS[text]] if text in KEYS else text)
                for kind in ("keyDown", "keyUp")
            ]
            await self._perform({"type": "key", "id": "keyboard", "actions": actions})

    async def click(self, selector: str) -> None:
        x, y = await self.wait_for(
            f"(({{x, y, width, height}}) => width && [Math.round(x + width / 2), Math.round(y + height / 2)])"
            f"(document.querySelector({json.dumps(selector)})?.getBoundingClientRect() ?? {{}})"
        )
        moves = [
            {"type": "pointerMove", "x": x, "y": y},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        await self._perform({"type": "pointer", "id": "mouse", "actions": moves})

    async def _perform(self, source: dict[str, object]) -> None:
        await self.call("input.performActions", context=self._tab, actions=[source])

    async def choose_files(self, selector: str, files: Sequence[Path]) -> None:
        found = await self.call(
            "browsingContext.locateNodes", context=self._tab, locator={"type": "css", "value": selector}
        )
        element = {"sharedId": found["nodes"][0]["sharedId"]}
        await self.call("input.setFiles", context=self._tab, element=element, files=[str(path) for path in files])


@asynccontextmanager
async def firefox(program: str, profile: Path) -> AsyncIterator[Firefox]:
    profile.mkdir()
    (profile / "user.js").write_text(PREFERENCES)
    process = await asyncio.create_subprocess_exec(
        program,
        *("--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr
    try:
        async with asyncio.timeout(WAIT):
            while not (found := re.search(rb"BiDi listening on (ws://\S+)", await process.stderr.readline())):
                assert process.returncode is None
        # What it writes later must not fill the pipe.
        drained = asyncio.create_task(process.stderr.read())
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(found[1].decode() + "/session", max_msg_size=0) as socket,
        ):
            browser = Firefox(socket)
            await browser.begin()
            yield browser
            await browser.call("browser.close")
        await drained
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
