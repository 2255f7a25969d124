"""Every file has an address: it opens the folder with the preview."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from ..gateways import Gateway
from .browser_user import BrowserUser
from .conftest import PASSWORD, OpenPage

ODD = "100% #1 ?a=b;<b>.txt"


@pytest.fixture
def folder(root: Path) -> Path:
    folder = root / "mixed v1.0"
    folder.mkdir()
    for name in ("a.txt", "b.txt", ODD, "no extension"):
        (folder / name).write_text(f"this is {name}")
    return folder


def expect_preview(user: BrowserUser, name: str) -> None:
    expect(user.dialog.locator("h2")).to_have_text(name)
    expect(user.dialog.locator("pre")).to_have_text(f"this is {name}")


def expect_folder(user: BrowserUser) -> None:
    expect(user.dialog).to_have_count(0)
    expect(user.row("b.txt")).to_be_visible()
    user.wait_until(lambda: user.page.url.endswith("/#/mixed%20v1.0"))
    assert user.page.title() == "mixed v1.0 · Portico"


def test_a_preview_sets_the_address(open_page: OpenPage, gateway: Gateway, folder: Path) -> None:
    user = open_page(gateway, signed_in=True)
    user.open("mixed v1.0")
    user.row("a.txt").locator(".open").click()
    expect_preview(user, "a.txt")
    assert user.page.url.endswith("/#/mixed%20v1.0/a.txt")
    assert user.page.title() == "a.txt · Portico"
    user.press("ArrowRight")
    expect_preview(user, "b.txt")
    assert user.page.url.endswith("/#/mixed%20v1.0/b.txt")
    user.requests.clear()
    user.press("Escape")
    expect_folder(user)
    expect(user.active).to_have_text("b.txt")
    expect(user.grid).to_be_focused()
    user.page.go_forward()
    expect_preview(user, "b.txt")
    user.page.go_back()
    expect_folder(user)
    user.page.go_back()
    expect(user.row("mixed v1.0")).to_be_visible()
    user.page.go_forward()
    expect_folder(user)
    user.page.go_forward()
    expect_preview(user, "b.txt")
    user.page.reload()
    expect_preview(user, "b.txt")
    user.press("Escape")
    expect_folder(user)


@pytest.mark.parametrize("name", [ODD, pytest.param("no extension", marks=pytest.mark.thorough)])
def test_an_address_opens_the_preview(open_page: OpenPage, gateway: Gateway, folder: Path, name: str) -> None:
    for number in range(300):  # more than the first page of the folder
        (folder / f"a {number}").touch()
    other = open_page(gateway, signed_in=True)
    other.open("mixed v1.0")
    other.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    other.page.locator("#filter").fill(name)
    other.act(name, "Copy link")
    expect(other.page.locator(".notice")).to_contain_text("Link copied")
    link: str = other.page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{gateway.url}/#/mixed%20v1.0/")
    user = open_page(gateway, link.removeprefix(gateway.url))
    if name == "no extension":
        user.expect_refusal(409)
    user.page.get_by_label("Username").fill("web")
    user.page.get_by_label("Password").fill(user.password)
    user.press("Enter")
    expect_preview(user, name)
    user.close_preview()
    expect(user.active).to_have_text(name)
    assert user.page.url.endswith("/#/mixed%20v1.0")


def test_a_file_that_may_not_be_read_is_shown_in_its_folder(
    open_page: OpenPage, gateway: Gateway, folder: Path
) -> None:
    user = open_page(gateway, "/#/mixed%20v1.0/b.txt")
    user.sign_in("sender", PASSWORD)
    expect(user.active).to_have_text("b.txt")
    expect(user.dialog).to_have_count(0)


def test_a_missing_file_says_so(open_page: OpenPage, gateway: Gateway, folder: Path) -> None:
    user = open_page(gateway, "/#/mixed%20v1.0/gone.txt")
    user.expect_refusal(404)
    user.sign_in()
    expect(user.page.locator(".placeholder p")).to_contain_text("It may have been moved or deleted.")
    user.page.get_by_role("link", name="Parent folder").click()
    expect(user.row("b.txt")).to_be_visible()
