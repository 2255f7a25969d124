"""The grid view: tiles with thumbnails."""

from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Locator, Request, expect

from ..gateways import Gateway
from ..operations.test_thumbnails import png
from .browser_user import BrowserUser
from .conftest import OpenPage

MARKUP = '<img src=x onerror="alert(1)">.jpg'


@pytest.fixture
def photos(root: Path) -> Path:
    (root / "folder").mkdir()
    (root / "notes.txt").write_text("text")
    (root / "bomb.png").write_bytes(png(60_000, 60_000, rows=5))
    for index in range(60):
        Image.new("RGB", (320, 200 + index), (index * 4, 90, 160)).save(root / f"photo {index:02}.jpg")
    Image.new("RGB", (64, 64), "red").save(root / MARKUP)
    return root


def thumbnail(user: BrowserUser, name: str) -> Locator:
    return user.row(name).locator("img")


def test_tiles_with_thumbnails(open_page: OpenPage, gateway: Gateway, photos: Path) -> None:
    user = open_page(gateway)
    user.expect_refusal(404)
    user.sign_in()
    page = user.page
    asked: list[str] = []

    def note(request: Request) -> None:
        if "THUMBNAIL" in request.url:
            asked.append(request.url)

    page.on("request", note)
    answered: list[str] = []
    page.on("requestfinished", lambda request: answered.append(request.url))
    expect(user.row("photo 00.jpg")).to_be_visible()
    assert asked == [], "a list has none"
    user.press("g")
    button = page.get_by_role("button", name="Grid view")
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(thumbnail(user, MARKUP)).to_be_visible()
    expect(thumbnail(user, "photo 00.jpg")).to_have_js_property("naturalWidth", 256)
    expect(thumbnail(user, "notes.txt")).to_be_hidden()
    expect(thumbnail(user, "bomb.png")).to_be_hidden()
    user.wait_until(lambda: any("bomb.png" in url for url in answered))
    expect(user.row("bomb.png").locator(".icon").first).to_be_visible()
    assert len(asked) < 50, "only those in sight"
    user.check_access()

    # By keyboard alone
    user.grid.focus()
    user.press("Home", "ArrowRight")
    expect(user.active).to_have_text(MARKUP)
    columns = page.evaluate(
        "() => new Set([...document.querySelectorAll('.canvas > .row:not([hidden])')]"
        ".map(row => row.getBoundingClientRect().left)).size"
    )
    assert columns > 3
    user.press("ArrowDown")
    below = user.row(user.active.inner_text()).bounding_box()
    above = user.row(MARKUP).bounding_box()
    assert below
    assert above
    assert below["x"] == above["x"]
    assert below["y"] > above["y"]
    user.press("End")
    expect(user.active).to_have_text("photo 59.jpg")
    expect(thumbnail(user, "photo 59.jpg")).to_be_visible()
    user.press(" ")
    expect(user.row("photo 59.jpg")).to_have_attribute("aria-selected", "true")
    user.press("Enter")
    expect(user.dialog.locator("h2")).to_have_text("photo 59.jpg")
    user.close_preview()
    user.press("Escape")

    # Remembered, and what had no thumbnail is not asked for again while the page is open.
    user.press("Home")
    expect(user.row("bomb.png")).to_be_visible()
    user.press("g", "g")
    expect(thumbnail(user, MARKUP)).to_be_visible()
    assert sum("bomb.png" in url for url in asked) == 1
    page.reload()
    user.settle()
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(thumbnail(user, "photo 00.jpg")).to_be_visible()
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(user.row("photo 00.jpg").locator(".size")).to_be_visible()


def test_tiles_on_a_phone_in_the_dark(open_page: OpenPage, gateway: Gateway, photos: Path) -> None:
    (photos / "bomb.png").unlink()
    options = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}
    user = open_page(gateway, color_scheme="dark", **options)
    user.sign_in()
    user.page.get_by_role("button", name="Grid view").tap()
    expect(thumbnail(user, "photo 00.jpg")).to_be_visible()
    user.check_access()
    assert user.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    user.row("photo 00.jpg").locator("input").tap()
    expect(user.row("photo 00.jpg")).to_have_attribute("aria-selected", "true")
    user.page.get_by_role("button", name="Clear selection").tap()
    user.row("photo 01.jpg").locator("img").tap()
    expect(user.dialog.locator("h2")).to_have_text("photo 01.jpg")
