"""Nothing is cut off, out of line or in the way, on phones and on large screens."""

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from ..gateways import Gateway
from .conftest import Visit
from .test_access import PHONE
from .visitors import Visitor

CLIPPED = """() => [...document.querySelectorAll(".canvas > .row:not([hidden]) .modified")]
    .filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent)"""
SIZES: dict[str, dict[str, Any]] = {
    "phone": PHONE,
    "laptop": {},
    "large": {"viewport": {"width": 1920, "height": 1080}},
}


def sign_in(visitor: Visitor) -> Visitor:
    """In any language."""
    visitor.page.locator("#username").fill("web")
    visitor.page.locator("#password").fill(visitor.password)
    visitor.press("Enter")
    visitor.settle()
    return visitor


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("locale", ["en-US", "en-GB", "de-DE", "es-ES", "fr-FR", "ja-JP"])
def test_no_date_is_cut_off(visit: Visit, gateway: Gateway, root: Path, locale: str, size: str) -> None:
    for month in range(12):
        file = root / f"{month}.txt"
        file.write_bytes(bytes(123_456))
        moment = 1_735_689_600 + month * 30 * 86_400 + 28 * 86_400 + 22 * 3600 + 58 * 60
        os.utime(file, (moment, moment))
    visitor = sign_in(visit(gateway, locale=locale, timezone_id="UTC", **SIZES[size]))
    expect(visitor.row("11.txt")).to_be_visible()
    assert visitor.page.evaluate(CLIPPED) == []
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [390, 1024, 1280, 1920])
@pytest.mark.parametrize("locale", ["en-GB", "de-DE", "es-ES", "fr-FR", "ja-JP"])
def test_choosing_does_not_move_the_list(
    visit: Visit, gateway: Gateway, root: Path, locale: str, width: int
) -> None:
    (root / "a.txt").touch()
    visitor = sign_in(visit(gateway, locale=locale, viewport={"width": width, "height": 800}))
    expect(visitor.row("a.txt")).to_be_visible()
    before = visitor.grid.bounding_box()
    visitor.row("a.txt").locator(".tick input").check()
    expect(visitor.page.locator(".actions.chosen")).to_be_visible()
    assert visitor.grid.bounding_box() == before
    find = visitor.page.locator(".find").bounding_box()
    assert find
    assert find["x"] + find["width"] <= width
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_name_of_the_open_folder_is_cut_last(visit: Visit, gateway: Gateway, root: Path) -> None:
    names = ["customers and projects", "contracts of the year", "offers and confirmations"] * 2
    names.append("negotiations that have come to an end this summer")
    root.joinpath(*names).mkdir(parents=True)
    address = "/#/" + "/".join(name.replace(" ", "%20") for name in names)
    visitor = sign_in(visit(gateway, address))
    here = visitor.page.locator(".crumb[aria-current]")
    expect(here).to_have_text(names[-1])
    assert here.evaluate("crumb => crumb.scrollWidth <= crumb.clientWidth")


def test_keys_are_named_as_on_the_keyboard(visit: Visit, gateway: Gateway, root: Path) -> None:
    (root / "a.txt").touch()
    visitor = sign_in(visit(gateway, locale="de-DE"))
    visitor.press("?")
    keys = visitor.dialog.locator("kbd").all_inner_texts()
    assert {"Leertaste", "Pos1 / Ende", "Bild auf / Bild ab", "Entf", "Umschalt + U", "Strg + A"} <= set(keys)
    visitor.press("Escape")
    visitor.row("a.txt").locator(".more button").click()
    expect(visitor.page.locator(".menu kbd").last).to_have_text("Entf")


def test_header_and_content_are_in_line_on_a_large_screen(visit: Visit, gateway: Gateway, root: Path) -> None:
    (root / "a.txt").touch()
    visitor = sign_in(visit(gateway, **SIZES["large"]))
    brand = visitor.page.locator(".top .brand").bounding_box()
    menu = visitor.page.locator(".top > button").last.bounding_box()
    grid = visitor.grid.bounding_box()
    assert brand
    assert menu
    assert grid
    assert abs(brand["x"] - grid["x"]) < 1
    assert abs(menu["x"] + menu["width"] - grid["x"] - grid["width"]) < 1


@pytest.mark.parametrize("size", SIZES)
def test_a_long_way_fits_on_one_line_and_every_folder_of_it_can_be_reached(
    visit: Visit, gateway: Gateway, root: Path, size: str
) -> None:
    names = [f"folder of level {level}" for level in range(1, 15)]
    root.joinpath(*names).mkdir(parents=True)
    address = "/#/" + "/".join(name.replace(" ", "%20") for name in names)
    visitor = sign_in(visit(gateway, address, **SIZES[size]))
    way = visitor.page.get_by_role("navigation")
    box = way.bounding_box()
    assert box
    assert box["height"] < 45
    expect(way.get_by_role("link", name="Files", exact=True)).to_be_visible()
    expect(way.locator("[aria-current]")).to_have_text(names[-1])
    visible = way.get_by_role("link").all_inner_texts()
    way.get_by_role("button", name="Folders in between").click()
    hidden = visitor.page.get_by_role("menuitem").all_inner_texts()
    assert [visible[0], *hidden, *visible[1:]] == ["Files", *names]
    visitor.check_access()
    visitor.page.get_by_role("menuitem", name=names[1], exact=True).click()
    expect(way.locator("[aria-current]")).to_have_text(names[1])


def test_languages_have_a_menu_of_their_own(visitor: Visitor) -> None:
    visitor.page.locator(".top button[aria-haspopup]").click()
    items = visitor.page.get_by_role("menuitem")
    expect(items).to_have_count(4)
    items.filter(has_text="Language: English").click()
    expect(visitor.page.get_by_role("menuitemradio")).to_have_count(5)
    expect(visitor.page.get_by_role("menuitemradio", name="English")).to_be_focused()
    visitor.check_access()
    visitor.page.get_by_role("menuitemradio", name="Deutsch").click()
    expect(visitor.page.get_by_role("button", name="Hochladen")).to_be_visible()


def test_a_phone_sorts_too_and_shows_no_keys(visit: Visit, gateway: Gateway, root: Path) -> None:
    for name, size in (("a", 2), ("b", 3), ("c", 1)):
        (root / name).write_bytes(bytes(size))
    visitor = sign_in(visit(gateway, **PHONE))
    visitor.expect_names("a", "b", "c")

    def choose(item: str) -> None:
        visitor.page.get_by_role("button", name="Sort by").tap()
        visitor.page.get_by_role("menuitemradio", name=item).tap()

    choose("Size")
    visitor.expect_names("c", "a", "b")
    choose("Descending")
    visitor.expect_names("b", "a", "c")
    visitor.check_access()
    visitor.page.locator(".top button[aria-haspopup]").tap()
    expect(visitor.page.get_by_role("menuitem", name="Sign out")).to_be_visible()
    expect(visitor.page.get_by_role("menuitem", name="Keyboard")).to_be_hidden()
    visitor.press("Escape")
    visitor.row("a").get_by_role("button", name="Actions for").tap()
    expect(visitor.page.get_by_role("menuitem", name="Rename")).to_be_visible()
    expect(visitor.page.locator(".menu kbd").first).to_be_hidden()


def test_sorting_can_be_reached_by_keyboard(visitor: Visitor, root: Path) -> None:
    for name, size in (("a", 2), ("b", 1)):
        (root / name).write_bytes(bytes(size))
    visitor.press("r")
    visitor.expect_names("a", "b")
    visitor.page.get_by_role("button", name="Size").focus()
    visitor.press("Enter")
    visitor.expect_names("b", "a")
