"""Accessibility: keyboard only, phones, dark mode, screen readers, five languages, right to left."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ..gateways import Gateway
from .browser_user import BrowserUser, file
from .conftest import OpenPage

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_a_journey_by_keyboard_alone(open_page: OpenPage, gateway: Gateway, root: Path, tmp_path: Path) -> None:
    """Upload a folder, find it, rename it, download a file from it."""
    (tmp_path / "holiday").mkdir()
    (tmp_path / "holiday" / "day 1.txt").write_text("sun")
    (tmp_path / "holiday" / "day 2.txt").write_text("rain")
    for name in ("a", "b", "z"):
        (root / name).mkdir()
    user = open_page(gateway)
    page = user.page
    expect(page.get_by_label("Username")).to_be_focused()
    page.keyboard.type("web")
    user.press("Tab")
    page.keyboard.type(user.password)
    user.press("Enter")
    expect(user.row("z")).to_be_visible()
    user.press("?")
    expect(user.dialog).to_contain_text("Keyboard shortcuts")
    expect(user.dialog.locator("h2")).to_have_css("outline-style", "none")
    user.press("Escape")
    expect(user.dialog).to_be_hidden()  # until then, the page's shortcuts are off
    user.chooser_by_key("Shift+U").set_files(tmp_path / "holiday")
    expect(user.upload_panel.locator("h2")).to_have_text("2 files uploaded")
    user.press("/")
    page.keyboard.type("holi")
    expect(user.status).to_have_text("1 of 4 items matches")
    for _ in range(8):
        if user.grid.evaluate("grid => grid === document.activeElement"):
            break
        user.press("Tab")
    user.press("F2")
    expect(user.dialog.get_by_label("New name")).to_be_focused()
    user.press("Control+A")
    page.keyboard.type("journey")
    user.press("Enter")
    expect(user.page.locator(".notice")).to_contain_text("Renamed to journey")
    expect(user.active).to_have_text("journey")
    expect(user.grid).to_be_focused()
    user.press("Enter")
    expect(user.row("day 2.txt")).to_be_visible()
    user.press("ArrowDown", "Shift+F10")
    expect(page.get_by_role("menuitem", name="Preview")).to_be_focused()
    user.press("Escape")
    with page.expect_download() as started:
        user.press("d")
    assert Path(started.value.path()).read_text() == "rain"
    user.press("Backspace")
    expect(user.active).to_have_text("journey")
    assert sorted(path.name for path in root.iterdir()) == ["a", "b", "journey", "z"]


def test_selection_by_keyboard_is_announced(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    for number in range(5):
        (root / f"{number}.txt").write_text("x")
    user = open_page(gateway, signed_in=True)
    user.press("ArrowDown", "Space", "Shift+ArrowDown", "Shift+ArrowDown")
    expect(user.page.locator("#announcements")).to_have_text("3 selected")
    selected = user.grid.locator("[aria-selected=true]:visible")
    expect(selected).to_have_count(3)
    active = user.grid.get_attribute("aria-activedescendant")
    expect(user.page.locator(f"#{active} bdi")).to_have_text("3.txt")
    user.press("Control+a")
    expect(selected).to_have_count(5)
    user.press("Escape")
    expect(selected).to_have_count(0)
    expect(user.grid).to_be_focused()


def test_single_letters_can_be_switched_off(user: BrowserUser) -> None:
    user.press("?")
    user.dialog.get_by_label("Use single-letter shortcuts").uncheck()
    user.press("Escape")
    expect(user.dialog).to_have_count(0)
    user.press("n", "?")
    expect(user.dialog).to_have_count(0)
    user.page.get_by_role("button", name="Keyboard shortcuts").click()
    user.dialog.get_by_label("Use single-letter shortcuts").check()
    user.press("Escape")
    expect(user.dialog).to_have_count(0)
    user.press("n")
    expect(user.dialog.get_by_label("Folder name")).to_be_focused()


@pytest.mark.parametrize(
    ("size", "scheme"),
    [("desktop", "light"), ("phone", "dark"), pytest.param("desktop", "dark", marks=pytest.mark.thorough)],
)
def test_axe_finds_nothing_serious(open_page: OpenPage, gateway: Gateway, root: Path, size: str, scheme: str) -> None:
    (root / "folder").mkdir()
    (root / "picture.png").write_bytes(b"")
    for number in range(30):
        (root / f"{number}.txt").write_text("text")
    user = open_page(gateway, color_scheme=scheme, **(PHONE if size == "phone" else {}))
    # The last one differs from the first only in colours.
    whole = (size, scheme) != ("desktop", "dark")
    rules = () if whole else ("color-contrast",)
    expect(user.page.get_by_label("Username")).to_be_visible()
    user.check_access(*rules)
    user.expect_refusal(400)
    user.sign_in(password="wrong password")
    expect(user.page.get_by_role("alert")).to_be_visible()
    user.check_access(*rules)
    user.sign_in()
    user.check_access(*rules)
    user.press("ArrowDown", "Space")
    user.check_access(*rules)
    for key in ("Delete", "F2", "m", "?", "a", "Enter") if whole else ("Delete",):
        user.press(key)
        expect(user.dialog).to_be_visible()
        user.check_access(*rules)
        user.close_preview()
    user.press("Escape", "Shift+F10")
    user.check_access(*rules)
    user.press("Escape")
    user.choose_files(file("0.txt"), file("new.txt"), file("bad\\name.txt"))
    expect(user.dialog).to_be_visible()
    user.check_access(*rules)
    user.dialog.get_by_role("button", name="Replace").click()
    expect(user.upload_panel.locator("h2")).to_have_text("2 files uploaded, 1 failed")
    user.check_access(*rules)
    user.upload_panel.get_by_role("button", name="Close uploads").click()
    user.page.goto(f"{gateway.url}/#/folder")
    expect(user.heading).to_have_text("This folder is empty")
    user.check_access(*rules)


def test_phone_by_touch(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "folder").mkdir()
    (root / "folder" / f"{'a very long name ' * 6}.txt").write_text("x")
    user = open_page(gateway, **PHONE, signed_in=True)
    user.row("folder").tap()
    expect(user.page.locator(".crumb[aria-current]")).to_have_text("folder")
    expect(user.status).to_have_text("1 item")
    assert user.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    user.grid.get_by_role("checkbox").last.tap()
    expect(user.page.locator(".selection-actions")).to_contain_text("1 selected")
    user.page.get_by_role("button", name="Delete").tap()
    box = user.dialog.bounding_box()
    assert box is not None
    assert box["width"] == 390
    user.dialog.get_by_role("button", name="Delete").tap()
    expect(user.heading).to_have_text("This folder is empty")


def test_right_to_left(user: BrowserUser, root: Path) -> None:
    (root / "folder").mkdir()
    user.page.evaluate("document.documentElement.dir = 'rtl'")
    user.press("r")
    name = user.row("folder").locator("bdi").bounding_box()
    more = user.row("folder").get_by_role("button").bounding_box()
    assert name is not None
    assert more is not None
    assert more["x"] < name["x"]
    assert user.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("locale", "label", "items"),
    [
        ("de-DE", "Benutzername", "1.300 Einträge"),
        pytest.param("fr-FR", "Nom d’utilisateur", "1 300 éléments", marks=pytest.mark.thorough),
        ("ja-JP", "ユーザー名", "1,300 件"),
        pytest.param("es-ES", "Nombre de usuario", "1300 elementos", marks=pytest.mark.thorough),
    ],
)
def test_the_browsers_language_is_used(
    open_page: OpenPage, gateway: Gateway, root: Path, locale: str, label: str, items: str
) -> None:
    user = open_page(gateway, locale=locale)
    expect(user.page.get_by_label(label)).to_be_visible()
    assert user.page.evaluate("document.documentElement.lang") == locale[:2]
    for number in range(1300):
        (root / f"{number}.txt").touch()
    user.page.get_by_label(label).fill("web")
    user.page.locator("#password").fill(user.password)
    user.press("Enter")
    user.settle()
    user.page.locator(".row.header .size button").click()  # which needs the whole folder
    expect(user.status).to_have_text(re.compile(re.sub(r"\s", r"\\s", items)))


def test_another_language_can_be_chosen(open_page: OpenPage, gateway: Gateway) -> None:
    user = open_page(gateway, locale="de-DE")
    expect(user.page.get_by_label("Benutzername")).to_be_visible()
    user.page.get_by_role("combobox").select_option("en")
    expect(user.page.get_by_label("Username")).to_be_visible()
