"""The details of a file or folder, and the storage that a folder uses."""

import hashlib
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Route, expect

from ..gateways import Gateway
from .browser_user import BrowserUser
from .conftest import OpenPage


@pytest.fixture
def user(open_page: OpenPage, gateway: Gateway, root: Path) -> BrowserUser:
    """Signed in, with a few files and folders."""
    (root / "folder" / "inner").mkdir(parents=True)
    (root / "folder" / "one.bin").write_bytes(bytes(1_000_000))
    (root / "folder" / "inner" / "two.bin").write_bytes(bytes(500_000))
    (root / "<b>note.txt").write_text("x" * 1500)
    return open_page(gateway, signed_in=True)


def fact(user: BrowserUser, label: str) -> Locator:
    return user.dialog.locator(".facts-list > div").filter(has=user.page.locator("dt", has_text=label))


def test_of_a_file(user: BrowserUser) -> None:
    user.act("<b>note.txt", "Details")
    expect(user.dialog.locator("h2")).to_have_text("<b>note.txt")
    expect(fact(user, "Path").locator("dd")).to_have_text("/<b>note.txt")
    expect(fact(user, "Link").locator("dd")).to_have_text(f"{user.gateway.url}/#/%3Cb%3Enote.txt")
    expect(fact(user, "Type").locator("dd")).to_have_text("text/plain")
    expect(fact(user, "Size").locator("dd")).to_have_text("1.5 kB (1,500 bytes)")
    expect(fact(user, "ETag").locator("dd")).to_contain_text('"')
    expect(fact(user, "SHA-256")).to_have_count(0)
    user.check_access()
    user.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    user.dialog.get_by_role("button", name="Copy path").click()
    user.wait_until(lambda: user.page.evaluate("navigator.clipboard.readText()") == "/<b>note.txt")
    user.press("Escape")
    expect(user.dialog).to_have_count(0)
    expect(user.grid).to_be_focused()


def test_a_known_digest_is_shown(user: BrowserUser) -> None:
    status = user.page.evaluate(
        """async () => (await fetch("/backend/1.0.0/filesystem/hashed.txt", {method: "PUT", body: "hashed", headers: {
            "Authorization": `Bearer ${JSON.parse(sessionStorage.getItem("portico.session")).access}`,
            "Want-Repr-Digest": "sha-256=1"}})).status"""
    )
    assert status == 201
    user.press("r")
    expect(user.row("hashed.txt")).to_be_visible()
    user.row("hashed.txt").click()
    user.press("i")
    expect(fact(user, "SHA-256").locator("bdi")).to_have_text(hashlib.sha256(b"hashed").hexdigest())


def test_the_storage_that_a_folder_uses(user: BrowserUser) -> None:
    user.row("folder").click()
    user.page.get_by_role("button", name="Details", exact=True).click()
    expect(user.dialog.locator("h2")).to_have_text("folder")
    user.dialog.get_by_role("button", name="Calculate").click()
    expect(fact(user, "Storage used").locator(".usage > span").first).to_have_text("1.5 MB in 2 files")
    user.check_access()
    user.press("Escape", "Escape", "Shift+I")
    expect(user.dialog.locator("h2")).to_have_text("Files")
    expect(fact(user, "Path").locator("bdi")).to_have_text("/")
    held: list[Route] = []
    user.page.route("**/*action=SEARCH*", lambda route: held.append(route))
    user.dialog.get_by_role("button", name="Calculate").click()
    user.wait_until(lambda: held)
    user.dialog.get_by_role("button", name="Stop").click()
    user.page.unroute("**/*action=SEARCH*")
    user.dialog.get_by_role("button", name="Continue").click()
    expect(fact(user, "Storage used").locator(".usage > span").first).to_have_text("1.5 MB in 3 files")


def test_on_a_phone_it_is_a_sheet(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "a.txt").write_text("x")
    user = open_page(gateway, viewport={"width": 360, "height": 700}, has_touch=True, signed_in=True)
    user.act("a.txt", "Details")
    expect(fact(user, "ETag")).to_be_visible()
    box = user.dialog.bounding_box()
    assert box is not None
    assert (box["x"], box["width"]) == (0, 360)
    assert box["y"] > 30
    assert round(box["y"] + box["height"]) == 700
    user.check_access()
