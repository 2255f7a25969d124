"""Searching below a folder: results as they come, each with its folder."""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Route, expect

from ..gateways import Gateway
from .browser_user import BrowserUser
from .conftest import PASSWORD, OpenPage

HOSTILE = "report <img src=x onerror=alert(1)>.txt"


@pytest.fixture
def user(open_page: OpenPage, gateway: Gateway, root: Path) -> BrowserUser:
    """Signed in, with a few files and folders."""
    (root / "team" / "2026").mkdir(parents=True)
    (root / "reports").mkdir()
    (root / "team" / "2026" / "Report one.txt").write_text("first")
    (root / "team" / HOSTILE).write_text("hostile")
    (root / "team" / "large.bin").write_bytes(bytes(1_500_000))
    (root / "old.csv").write_text("old")
    os.utime(root / "old.csv", (1_000_000_000, 1_000_000_000))
    return open_page(gateway, signed_in=True)


def results(user: BrowserUser) -> Locator:
    return user.page.get_by_role("option").locator("visible=true")


def search(user: BrowserUser, name: str) -> None:
    user.press("s")
    field = user.page.get_by_label("Name to search for")
    expect(field).to_be_focused()
    field.fill(name)
    user.press("Enter")
    finished(user)


def finished(user: BrowserUser) -> None:
    expect(user.page.locator(".search-status")).to_contain_text("entries searched")
    expect(user.page.locator(".search .spinner")).to_be_hidden()


def names(user: BrowserUser) -> list[str]:
    return sorted(results(user).locator(".found-name").all_inner_texts())


def test_results_have_their_folders_and_open(user: BrowserUser) -> None:
    search(user, "report")
    expect(results(user)).to_have_count(3)
    assert names(user) == ["Report one.txt", HOSTILE, "reports"]
    expect(results(user).filter(has_text="Report one").locator(".found-folder")).to_have_text("/team/2026")
    expect(user.page.locator(".search-status")).to_have_text("3 found · 7 entries searched")
    user.check_access()
    results(user).filter(has_text="Report one").click()
    expect(user.dialog.locator("pre")).to_have_text("first")
    assert user.page.url.endswith("/#/team/2026/Report%20one.txt")
    user.close_preview()
    expect(user.active).to_have_text("Report one.txt")
    expect(user.page.locator(".search")).to_be_hidden()
    user.page.go_back()
    expect(results(user)).to_have_count(3)
    results(user).filter(has_text="reports").click()
    expect(user.page.locator(".crumb[aria-current]")).to_have_text("reports")


def test_by_keyboard_alone(user: BrowserUser) -> None:
    user.press("/")
    user.page.keyboard.type("t one")
    user.press("Enter")
    finished(user)
    assert names(user) == ["Report one.txt"]
    user.press("ArrowDown")
    expect(user.page.get_by_role("listbox")).to_be_focused()
    # The entries of the folder are hidden, so their shortcuts do nothing.
    user.press("Control+a", "Delete", "d")
    expect(user.dialog).to_have_count(0)
    user.press("s")
    expect(user.page.get_by_label("Name to search for")).to_be_focused()
    user.press("ArrowDown", "Enter")
    expect(user.dialog.locator("pre")).to_have_text("first")
    user.close_preview()
    user.press("s", "Escape")
    expect(user.page.locator(".search")).to_be_hidden()
    expect(user.grid).to_be_focused()
    expect(user.row("Report one.txt")).to_be_visible()


def test_a_search_has_an_address(user: BrowserUser, open_page: OpenPage) -> None:
    user.open("team")
    search(user, "report")
    user.page.get_by_label("Type", exact=True).select_option("Text")
    user.page.get_by_label("Upper and lower case").select_option("Match case")
    expect(results(user)).to_have_count(1)
    address = "/#/team?name=report&type=text%2F&case=match"
    assert user.page.url == user.gateway.url + address
    user.page.reload()
    expect(results(user)).to_have_text(re.compile("report <img"))
    expect(user.page.get_by_label("Type", exact=True)).to_have_value("Text")
    user.page.go_back()
    expect(user.page.locator(".search")).to_be_hidden()
    expect(user.row("large.bin")).to_be_visible()
    assert user.page.url == user.gateway.url + "/#/team"
    user.page.go_forward()
    expect(results(user)).to_have_count(1)
    user.press("Escape")
    expect(user.page.locator(".search")).to_be_hidden()
    user.wait_until(lambda: user.page.url == user.gateway.url + "/#/team")
    expect(user.grid).to_be_focused()

    other = open_page(user.gateway, address + "&x=1&days=3", signed_in=True)
    expect(results(other)).to_have_count(1)
    expect(other.page.get_by_label("Name to search for")).to_have_value("report")
    expect(other.page.get_by_label("Modified")).to_have_value("Any time")  # three days are not offered
    assert other.page.url == user.gateway.url + address
    other.press("Escape")
    expect(other.row("large.bin")).to_be_visible()
    assert other.page.url == user.gateway.url + "/#/team"


def test_filters(user: BrowserUser) -> None:
    search(user, "")
    expect(results(user)).to_have_count(7)

    def only(filter_name: str, choice: str) -> list[str]:
        user.page.get_by_label(filter_name, exact=True).select_option(choice)
        finished(user)
        user.wait_until(lambda: len(names(user)) < 7)
        found = names(user)
        user.page.get_by_label(filter_name, exact=True).select_option(index=0)
        expect(results(user)).to_have_count(7)
        return found

    assert only("Type", "Folders") == ["2026", "reports", "team"]
    assert only("Type", "Text") == ["Report one.txt", "old.csv", HOSTILE]
    assert only("Size", "Larger than 1 MB") == ["large.bin"]
    assert only("Modified", "Older than a year") == ["old.csv"]
    user.page.get_by_label("Name to search for").fill("*.pdf")
    user.press("Enter")
    expect(user.page.locator(".search-note")).to_have_text("Nothing found")


def test_it_can_be_stopped_and_go_on(user: BrowserUser, root: Path) -> None:
    for number in range(450):  # three requests
        (root / "reports" / f"many {number}").touch()
    held: list[Route] = []
    user.page.route("**/*action=SEARCH*cursor=*", lambda route: held.append(route))
    user.press("s")
    user.page.keyboard.type("many")
    user.press("Enter")
    user.wait_until(lambda: held)
    so_far = re.compile(r"^[1-9]\d* found · \d+ entries searched so far$")
    expect(user.page.locator(".search-status")).to_have_text(so_far)
    user.page.get_by_role("button", name="Stop").click()
    expect(user.page.locator(".search .spinner")).to_be_hidden()
    user.page.unroute("**/*action=SEARCH*cursor=*")
    user.page.get_by_role("button", name="Continue").click()
    expect(user.page.locator(".search-status")).to_have_text("450 found · 457 entries searched")
    expect(user.page.get_by_role("button", name="Continue")).to_be_hidden()


def test_a_failure_says_why(user: BrowserUser, root: Path) -> None:
    user.open("reports")
    (root / "reports").rmdir()
    user.expect_refusal(404)
    user.press("s")
    user.page.keyboard.type("x")
    user.press("Enter")
    expect(user.page.locator(".search-note")).to_contain_text("It may have been moved or deleted.")


def test_the_next_user_sees_nothing_of_it(user: BrowserUser) -> None:
    search(user, "report")
    expect(results(user)).to_have_count(3)
    user.user_menu("Sign out")
    user.page.get_by_label("Username").fill("reader")
    user.page.get_by_label("Password").fill(PASSWORD)
    user.press("Enter")
    expect(user.row("team")).to_be_visible()
    expect(user.page.locator(".search")).to_be_hidden()
    assert user.page.url.endswith("/#/")
    user.press("s")
    expect(user.page.get_by_label("Name to search for")).to_have_value("")
    expect(results(user)).to_have_count(0)


def test_on_a_phone(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "x.txt").write_text("here")
    user = open_page(gateway, viewport={"width": 360, "height": 700}, has_touch=True, signed_in=True)
    user.page.get_by_role("button", name="Search subfolders").tap()
    user.page.get_by_label("Name to search for").fill("x")
    user.page.get_by_role("button", name="Search", exact=True).tap()
    expect(results(user)).to_have_count(1)
    assert user.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    user.check_access()
    results(user).tap()
    expect(user.dialog.locator("pre")).to_have_text("here")
