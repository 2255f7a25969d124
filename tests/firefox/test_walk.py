"""A walk through the page in Firefox, by keyboard and mouse: what all browsers share is tested in Chromium."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..gateways import Gateway
from ..operations.test_thumbnails import pdf
from ..servers import apt
from .driver import Firefox, firefox

PROGRAM = "/usr/bin/firefox-esr"
ROWS = '[...document.querySelectorAll(".grid .canvas > .row:not([hidden])")]'
CLIP = Path(__file__).parent.parent / "web" / "clip.mp4"


@pytest.fixture
def program() -> str:
    try:
        apt.ensured("firefox-esr", lambda: os.path.exists(PROGRAM))
    except (pytest.fail.Exception, subprocess.CalledProcessError):
        apt.lacking("Firefox is not installed, and cannot be installed here.")
    return PROGRAM


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path / "gateway" / "home")
    gateway.home.parent.mkdir()
    gateway.start()
    yield gateway
    gateway.kill()


async def preview(browser: Firefox, name: str, content: str) -> None:
    row = f"{ROWS}.find((row) => row.querySelector('bdi').textContent === '{name}')"
    await browser.wait_for(f"{row}?.querySelector('.open').click() ?? true")
    await browser.wait_for(f"document.querySelector('dialog h2')?.textContent === '{name}'")
    await browser.wait_for(f"Boolean(document.querySelector('dialog {content}'))")


async def test_the_page(program: str, gateway: Gateway, tmp_path: Path) -> None:
    root = gateway.empty_root()
    (root / "sub").mkdir()
    (root / "sub" / "report.txt").write_text("found")
    (root / "clip.mp4").write_bytes(CLIP.read_bytes())
    (root / "notes.md").write_text("# Notes\n\n<script>document.title = 'owned'</script>")
    (root / "paper.pdf").write_bytes(pdf(2, script="app.alert('owned')"))
    async with firefox(program, tmp_path / "profile") as browser:
        await browser.go(gateway.url + "/#/")
        await browser.wait_for("document.activeElement.id === 'username'")
        await browser.press("web", "Tab", gateway.password, "Enter")
        await browser.wait_for(f"{ROWS}.length === 4")

        await preview(browser, "notes.md", "article h3")
        await browser.evaluate("history.back()")
        await browser.wait_for("!document.querySelector('dialog')")
        await browser.evaluate("history.forward()")
        await browser.wait_for("Boolean(document.querySelector('dialog article'))")
        await browser.reload()
        await browser.wait_for("document.querySelector('dialog article')?.textContent.includes('owned')")
        await browser.press("Escape")
        await browser.wait_for("!document.querySelector('dialog') && location.hash === '#/'")
        await preview(browser, "paper.pdf", "img")
        await browser.wait_for("document.querySelector('dialog img').naturalWidth > 0")
        await browser.press("Escape")
        await preview(browser, "clip.mp4", "video")
        await browser.wait_for("document.querySelector('video').duration === 30")
        await browser.evaluate("document.querySelector('video').currentTime = 25")
        await browser.wait_for("!document.querySelector('video').seeking")
        assert await browser.evaluate("document.querySelector('video').currentTime") == 25
        await browser.press("Escape")

        await browser.wait_for("document.activeElement.matches('.grid')")
        await browser.press("g")
        await browser.wait_for(f"{ROWS}.some((row) => row.querySelector('.thumbnail').naturalWidth > 0)")
        await browser.press("s", "report", "Enter")
        await browser.wait_for("document.querySelector('.found:not([hidden])')?.textContent.includes('/sub')")
        await browser.reload()
        await browser.wait_for("document.querySelector('.found:not([hidden])')?.textContent.includes('/sub')")
        await browser.wait_for("document.activeElement.id === 'search'")
        await browser.press("ArrowDown")
        await browser.wait_for("document.activeElement.matches('.found-list')")
        await browser.press("Enter")
        await browser.wait_for("document.querySelector('dialog pre')?.textContent === 'found'")
        await browser.press("Escape")
        await browser.wait_for("location.hash === '#/sub' && !document.querySelector('dialog')")

        small, large = tmp_path / "small.txt", tmp_path / "large.bin"
        small.write_text("small")
        large.write_bytes(os.urandom(17 * 2**20))
        await browser.choose_files("input[type=file]:not([webkitdirectory])", [small, large])
        await browser.wait_for("document.querySelector('.upload-panel').textContent.includes('2 files')")
        await browser.wait_for(f"{ROWS}.length === 3")
        assert (root / "sub" / "large.bin").read_bytes() == large.read_bytes()

        await browser.resize(390, 780)
        await browser.click(".app-bar button[aria-haspopup]")
        await browser.wait_for("Boolean(document.querySelector('[role=menuitem]'))")
        assert await browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await browser.evaluate("document.title") == "sub · Portico"
        assert browser.noise == []
        assert [url for url in browser.requests if not url.startswith((gateway.url, "blob:"))] == []
