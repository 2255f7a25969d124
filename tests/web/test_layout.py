"""Layout: nothing is truncated, misaligned or covered, on phones and on large screens."""

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from ..gateways import Gateway
from .browser_user import BrowserUser
from .conftest import OpenPage
from .test_accessibility import PHONE

CLIPPED = """() => [...document.querySelectorAll(".canvas > .row:not([hidden]) .modified")]
    .filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent)"""
NEXT_FRAME = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
SIZES: dict[str, dict[str, Any]] = {
    "phone": PHONE,
    "laptop": {},
    "large": {"viewport": {"width": 1920, "height": 1080}},
}


def sign_in(user: BrowserUser) -> BrowserUser:
    """Sign in, in any language."""
    user.page.locator("#username").fill("web")
    user.page.locator("#password").fill(user.password)
    user.press("Enter")
    user.settle()
    return user


@pytest.mark.parametrize(
    "locale",
    [
        "de-DE",
        "ja-JP",
        *(pytest.param(each, marks=pytest.mark.thorough) for each in ("en-US", "en-GB", "es-ES", "fr-FR")),
    ],
)
def test_everything_fits_in_every_language(open_page: OpenPage, gateway: Gateway, root: Path, locale: str) -> None:
    for month in range(12):
        file = root / f"{month}.txt"
        file.write_bytes(bytes(123_456))
        moment = 1_735_689_600 + month * 30 * 86_400 + 28 * 86_400 + 22 * 3600 + 58 * 60
        os.utime(file, (moment, moment))
    user = open_page(gateway, locale=locale, timezone_id="UTC", signed_in=True)
    expect(user.row("11.txt")).to_be_visible()
    for width, height in ((390, 844), (1024, 768), (1280, 800), (1920, 1080)):
        user.page.set_viewport_size({"width": width, "height": height})
        user.page.evaluate(NEXT_FRAME)
        assert user.page.evaluate(CLIPPED) == [], width
        assert user.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        assert_selecting_does_not_move_the_list(user, "0.txt", width)


def assert_selecting_does_not_move_the_list(user: BrowserUser, name: str, width: int) -> None:
    before = user.grid.bounding_box()
    checkbox = user.row(name).locator(".select input")
    checkbox.check()
    expect(user.page.locator(".selection-actions")).to_be_visible()
    user.page.evaluate(NEXT_FRAME)
    assert user.grid.bounding_box() == before, width
    find = user.page.locator(".find").bounding_box()
    assert find
    assert find["x"] + find["width"] <= width
    assert user.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    checkbox.uncheck()
    expect(user.page.locator(".selection-actions")).to_be_hidden()


def test_icons_are_centred_in_their_rows(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "folder").mkdir()
    (root / "a.txt").touch()
    for size in SIZES.values():
        user = open_page(gateway, **size, signed_in=True)
        for name in ("folder", "a.txt"):
            row = user.row(name).bounding_box()
            icon = user.row(name).locator(".name > .icon").bounding_box()
            link = user.row(name).locator(".open").bounding_box()
            assert row
            assert icon
            assert link
            assert abs(row["y"] + row["height"] / 2 - icon["y"] - icon["height"] / 2) < 1.5
            assert icon["x"] + icon["width"] < link["x"]


def test_the_name_of_the_open_folder_is_cut_last(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    names = ["customers and projects", "contracts of the year", "offers and confirmations"] * 2
    names.append("negotiations that have come to an end this summer")
    root.joinpath(*names).mkdir(parents=True)
    address = "/#/" + "/".join(name.replace(" ", "%20") for name in names)
    user = open_page(gateway, address, signed_in=True)
    here = user.page.locator(".crumb[aria-current]")
    expect(here).to_have_text(names[-1])
    assert here.evaluate("crumb => crumb.scrollWidth <= crumb.clientWidth")


def test_keys_are_named_as_on_the_keyboard(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "a.txt").touch()
    user = open_page(gateway, locale="de-DE", signed_in=True)
    user.press("?")
    keys = user.dialog.locator("kbd").all_inner_texts()
    assert {"Leertaste", "Pos1 / Ende", "Bild auf / Bild ab", "Entf", "Umschalt + U", "Strg + A"} <= set(keys)
    user.press("Escape")
    user.row("a.txt").locator(".more button").click()
    expect(user.page.locator(".menu kbd").last).to_have_text("Entf")


def test_header_and_content_are_in_line_on_a_large_screen(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "a.txt").touch()
    user = open_page(gateway, **SIZES["large"], signed_in=True)
    brand = user.page.locator(".app-bar .brand").bounding_box()
    menu = user.page.locator(".app-bar > button").last.bounding_box()
    grid = user.grid.bounding_box()
    assert brand
    assert menu
    assert grid
    assert abs(brand["x"] - grid["x"]) < 1
    assert abs(menu["x"] + menu["width"] - grid["x"] - grid["width"]) < 1


@pytest.mark.parametrize("size", SIZES)
def test_a_long_way_fits_on_one_line_and_every_folder_of_it_can_be_reached(
    open_page: OpenPage, gateway: Gateway, root: Path, size: str
) -> None:
    names = [f"folder of level {level}" for level in range(1, 15)]
    root.joinpath(*names).mkdir(parents=True)
    address = "/#/" + "/".join(name.replace(" ", "%20") for name in names)
    user = open_page(gateway, address, **SIZES[size], signed_in=True)
    way = user.page.get_by_role("navigation")
    box = way.bounding_box()
    assert box
    assert box["height"] < 45
    expect(way.get_by_role("link", name="Files", exact=True)).to_be_visible()
    expect(way.locator("[aria-current]")).to_have_text(names[-1])
    visible = way.get_by_role("link").all_inner_texts()
    way.get_by_role("button", name="Show full path").click()
    hidden = user.page.get_by_role("menuitem").all_inner_texts()
    assert [visible[0], *hidden, *visible[1:]] == ["Files", *names]
    user.check_access()
    user.page.get_by_role("menuitem", name=names[1], exact=True).click()
    expect(way.locator("[aria-current]")).to_have_text(names[1])


def test_languages_have_a_menu_of_their_own(user: BrowserUser) -> None:
    user.page.locator(".app-bar button[aria-haspopup]").click()
    items = user.page.get_by_role("menuitem")
    expect(items).to_have_count(7)
    items.filter(has_text="Language: English").click()
    expect(user.page.get_by_role("menuitemradio")).to_have_count(5)
    expect(user.page.get_by_role("menuitemradio", name="English")).to_be_focused()
    user.check_access()
    user.page.get_by_role("menuitemradio", name="Deutsch").click()
    expect(user.page.get_by_role("button", name="Hochladen")).to_be_visible()


def test_a_phone_sorts_too_and_shows_no_keys(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    for name, size in (("a", 2), ("b", 3), ("c", 1)):
        (root / name).write_bytes(bytes(size))
    user = open_page(gateway, **PHONE, signed_in=True)
    user.expect_names("a", "b", "c")

    def choose(item: str) -> None:
        user.page.get_by_role("button", name="Sort by").tap()
        user.page.get_by_role("menuitemradio", name=item).tap()

    choose("Size")
    user.expect_names("c", "a", "b")
    choose("Descending")
    user.expect_names("b", "a", "c")
    user.check_access()
    user.page.locator(".app-bar button[aria-haspopup]").tap()
    expect(user.page.get_by_role("menuitem", name="Sign out")).to_be_visible()
    expect(user.page.get_by_role("menuitem", name="Keyboard")).to_be_hidden()
    user.press("Escape")
    user.row("a").get_by_role("button", name="Actions for").tap()
    expect(user.page.get_by_role("menuitem", name="Rename")).to_be_visible()
    expect(user.page.locator(".menu kbd").first).to_be_hidden()


def test_sorting_can_be_reached_by_keyboard(user: BrowserUser, root: Path) -> None:
    for name, size in (("a", 2), ("b", 1)):
        (root / name).write_bytes(bytes(size))
    user.press("r")
    user.expect_names("a", "b")
    user.page.get_by_role("button", name="Size").focus()
    user.press("Enter")
    user.expect_names("b", "a")
