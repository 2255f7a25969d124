"""For everyone: by keyboard alone, on a phone, in the dark, with a screen reader, in five languages, from right to left."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ..gateways import Gateway
from .conftest import Visit
from .visitors import Visitor, file

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_a_journey_by_keyboard_alone(visit: Visit, gateway: Gateway, root: Path, tmp_path: Path) -> None:
    """Upload a folder, find it, rename it, download a file from it."""
    (tmp_path / "holiday").mkdir()
    (tmp_path / "holiday" / "day 1.txt").write_text("sun")
    (tmp_path / "holiday" / "day 2.txt").write_text("rain")
    for name in ("a", "b", "z"):
        (root / name).mkdir()
    visitor = visit(gateway)
    page = visitor.page
    expect(page.get_by_label("User name")).to_be_focused()
    page.keyboard.type("web")
    visitor.press("Tab")
    page.keyboard.type(visitor.password)
    visitor.press("Enter")
    expect(visitor.row("z")).to_be_visible()
    visitor.press("?")
    expect(visitor.dialog).to_contain_text("Keyboard shortcuts")
    expect(visitor.dialog.locator("h2")).to_have_css("outline-style", "none")
    visitor.press("Escape")
    with page.expect_file_chooser() as opened:
        visitor.press("Shift+U")
    opened.value.set_files(tmp_path / "holiday")
    expect(visitor.tray.locator("h2")).to_have_text("2 files uploaded")
    visitor.press("/")
    page.keyboard.type("holi")
    expect(visitor.status).to_have_text("1 of 4 items matches")
    for _ in range(8):
        if visitor.grid.evaluate("grid => grid === document.activeElement"):
            break
        visitor.press("Tab")
    visitor.press("F2")
    expect(visitor.dialog.get_by_label("New name")).to_be_focused()
    visitor.press("Control+A")
    page.keyboard.type("journey")
    visitor.press("Enter")
    expect(visitor.page.locator(".notice")).to_contain_text("Renamed to journey")
    expect(visitor.active).to_have_text("journey")
    expect(visitor.grid).to_be_focused()
    visitor.press("Enter")
    expect(visitor.row("day 2.txt")).to_be_visible()
    visitor.press("ArrowDown", "Shift+F10")
    expect(page.get_by_role("menuitem", name="Preview")).to_be_focused()
    visitor.press("Escape")
    with page.expect_download() as started:
        visitor.press("d")
    assert Path(started.value.path()).read_text() == "rain"
    visitor.press("Backspace")
    expect(visitor.active).to_have_text("journey")
    assert sorted(path.name for path in root.iterdir()) == ["a", "b", "journey", "z"]


def test_selection_by_keyboard_is_told(visit: Visit, gateway: Gateway, root: Path) -> None:
    for number in range(5):
        (root / f"{number}.txt").write_text("x")
    visitor = visit(gateway)
    visitor.sign_in()
    visitor.press("ArrowDown", "Space", "Shift+ArrowDown", "Shift+ArrowDown")
    expect(visitor.page.locator("#announcements")).to_have_text("3 selected")
    selected = visitor.grid.locator("[aria-selected=true]:visible")
    expect(selected).to_have_count(3)
    active = visitor.grid.get_attribute("aria-activedescendant")
    expect(visitor.page.locator(f"#{active} bdi")).to_have_text("3.txt")
    visitor.press("Control+a")
    expect(selected).to_have_count(5)
    visitor.press("Escape")
    expect(selected).to_have_count(0)
    expect(visitor.grid).to_be_focused()


def test_single_letters_can_be_switched_off(visitor: Visitor) -> None:
    visitor.press("?")
    visitor.dialog.get_by_label("Use single-letter shortcuts").uncheck()
    visitor.press("Escape", "n", "?")
    expect(visitor.dialog).to_have_count(0)
    visitor.page.get_by_role("button", name="Keyboard shortcuts").click()
    visitor.dialog.get_by_label("Use single-letter shortcuts").check()
    visitor.press("Escape", "n")
    expect(visitor.dialog.get_by_label("Name of the folder")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_axe_finds_nothing_serious(
    visit: Visit, gateway: Gateway, root: Path, size: str, scheme: str
) -> None:
    (root / "folder").mkdir()
    (root / "picture.png").write_bytes(b"")
    for number in range(30):
        (root / f"{number}.txt").write_text("text")
    visitor = visit(gateway, color_scheme=scheme, **(PHONE if size == "phone" else {}))
    expect(visitor.page.get_by_label("User name")).to_be_visible()
    visitor.check_access()
    visitor.expect_refusal(400)
    visitor.sign_in(password="wrong password")
    expect(visitor.page.get_by_role("alert")).to_be_visible()
    visitor.check_access()
    visitor.sign_in()
    visitor.check_access()
    visitor.press("ArrowDown", "Space")
    visitor.check_access()
    whole = (size, scheme) in (("desktop", "light"), ("phone", "dark"))  # the others differ in few colours
    for key in ("Delete", "F2", "m", "?", "a", "Enter") if whole else ("Delete",):
        visitor.press(key)
        expect(visitor.dialog).to_be_visible()
        visitor.page.wait_for_timeout(100)
        visitor.check_access()
        visitor.press("Escape")
        expect(visitor.dialog).to_have_count(0)
    visitor.press("Escape", "Shift+F10")
    visitor.check_access()
    visitor.press("Escape")
    visitor.choose_files(file("0.txt"), file("new.txt"), file("bad\\name.txt"))
    expect(visitor.dialog).to_be_visible()
    visitor.check_access()
    visitor.dialog.get_by_role("button", name="Replace").click()
    expect(visitor.tray.locator("h2")).to_have_text("2 files uploaded, 1 failed")
    visitor.check_access()
    visitor.tray.get_by_role("button", name="Close the list").click()
    visitor.page.goto(f"{gateway.url}/#/folder")
    expect(visitor.heading).to_have_text("This folder is empty")
    visitor.check_access()


def test_phone_by_touch(visit: Visit, gateway: Gateway, root: Path) -> None:
    (root / "folder").mkdir()
    (root / "folder" / f"{'a very long name ' * 6}.txt").write_text("x")
    visitor = visit(gateway, **PHONE)
    visitor.sign_in()
    visitor.row("folder").tap()
    expect(visitor.page.locator(".crumb[aria-current]")).to_have_text("folder")
    expect(visitor.status).to_have_text("1 item")
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visitor.grid.get_by_role("checkbox").last.tap()
    expect(visitor.page.locator(".chosen")).to_contain_text("1 selected")
    visitor.page.get_by_role("button", name="Delete").tap()
    box = visitor.dialog.bounding_box()
    assert box is not None
    assert box["width"] == 390
    visitor.dialog.get_by_role("button", name="Delete").tap()
    expect(visitor.heading).to_have_text("This folder is empty")


def test_right_to_left(visitor: Visitor, root: Path) -> None:
    (root / "folder").mkdir()
    visitor.page.evaluate("document.documentElement.dir = 'rtl'")
    visitor.press("r")
    name = visitor.row("folder").locator("bdi").bounding_box()
    more = visitor.row("folder").get_by_role("button").bounding_box()
    assert name is not None
    assert more is not None
    assert more["x"] < name["x"]
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("locale", "label", "items"),
    [
        ("de-DE", "Benutzername", "1.300 Einträge"),
        ("fr-FR", "Nom d’utilisateur", "1 300 éléments"),
        ("ja-JP", "ユーザー名", "1,300 件"),
        ("es-ES", "Nombre de usuario", "1300 elementos"),
    ],
)
def test_the_browsers_language_is_spoken(
    visit: Visit, gateway: Gateway, root: Path, locale: str, label: str, items: str
) -> None:
    visitor = visit(gateway, locale=locale)
    expect(visitor.page.get_by_label(label)).to_be_visible()
    assert visitor.page.evaluate("document.documentElement.lang") == locale[:2]
    for number in range(1300):
        (root / f"{number}.txt").touch()
    visitor.page.get_by_label(label).fill("web")
    visitor.page.locator("#password").fill(visitor.password)
    visitor.press("Enter")
    visitor.settle()
    visitor.page.locator(".head .size button").click()  # which needs the whole folder
    expect(visitor.status).to_have_text(re.compile(re.sub(r"\s", r"\\s", items)))


def test_another_language_can_be_chosen(visit: Visit, gateway: Gateway) -> None:
    visitor = visit(gateway, locale="de-DE")
    expect(visitor.page.get_by_label("Benutzername")).to_be_visible()
    visitor.page.get_by_role("combobox").select_option("en")
    expect(visitor.page.get_by_label("User name")).to_be_visible()
