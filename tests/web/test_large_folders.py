"""Folders that are loaded in part, and folders that change meanwhile."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from ..gateways import Gateway
from .browser_user import BrowserUser
from .conftest import OpenPage

MANY = 6_000


@pytest.fixture(scope="module")
def many(running: Gateway) -> Path:
    """A large folder beside the users' files. The last entry is the largest and the oldest."""
    # A process may come back to this module after it has run other tests.
    path = Path(tempfile.mkdtemp(prefix="many-", dir=running.home))
    folder = os.open(path, os.O_RDONLY)
    for number in range(MANY):
        os.close(os.open(f"{number:05}.txt", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=folder))
    os.close(folder)
    last = path / f"{MANY - 1:05}.txt"
    last.write_bytes(bytes(1000))
    os.utime(last, (1_000_000_000, 1_000_000_000))
    return path


@pytest.fixture
def user(open_page: OpenPage, gateway: Gateway, root: Path, many: Path) -> Iterator[BrowserUser]:
    """At a folder of which the first 250 entries are loaded. No test changes it, so it is moved in and out."""
    many.rename(root / "many")
    user = open_page(gateway, "/#/many", signed_in=True)
    expect(user.status).to_have_text("Showing the first 250 items")
    yield user
    (root / "many").rename(many)


Release = Callable[[], None]


def hold_further_pages(user: BrowserUser) -> tuple[list[Route], Release]:
    """Hold back all pages but the first until they are released."""
    held: list[Route] = []
    released = False

    def hold(route: Route) -> None:
        if released:
            route.continue_()
        else:
            held.append(route)

    def release() -> None:
        nonlocal released
        released = True  # the next page may be asked for before the last of these is let go
        for route in held:
            route.continue_()

    user.page.route("**/*cursor=*", hold)
    return held, release


def test_a_filter_loads_the_rest_and_shows_how_far_it_is(user: BrowserUser) -> None:
    _, release = hold_further_pages(user)
    user.press("/")
    user.page.keyboard.type("05050")
    expect(user.heading).to_have_text("Searching the whole folder…")
    expect(user.status).to_have_text("0 matches in 250 items so far…")
    expect(user.page.get_by_role("button", name="Stop")).to_be_visible()
    user.check_access()
    release()
    user.expect_names("05050.txt")
    expect(user.status).to_have_text("1 of 6,000 items matches")
    expect(user.page.locator("#filter")).to_be_focused()
    user.page.keyboard.type("x")
    expect(user.heading).to_have_text("No matches")


def test_a_search_can_be_stopped_and_then_says_what_it_left_out(user: BrowserUser) -> None:
    held, release = hold_further_pages(user)
    user.press("/")
    user.page.keyboard.type("5999")
    expect(user.status).to_have_text("0 matches in 250 items so far…")
    user.page.get_by_role("button", name="Stop").click()
    asked = len(held)
    release()
    expect(user.page.get_by_role("button", name="Load all")).to_be_visible()
    assert asked == 1
    expect(user.status).to_contain_text("the rest isn't loaded")


def test_a_page_that_does_not_come_ends_the_search_with_its_reason(user: BrowserUser) -> None:
    user.expect_refusal("net::ERR")
    user.page.route("**/*cursor=*", lambda route: route.abort())
    user.press("/")
    user.page.keyboard.type("5999")
    expect(user.page.get_by_role("alert")).to_contain_text("Can't reach the gateway")
    expect(user.heading).to_have_text("No matches in the loaded items")
    expect(user.status).to_have_text("0 matches in the first 250 items; the rest isn't loaded")


@pytest.mark.parametrize("column", ["Size", "Modified"])
def test_sorting_loads_the_rest_first(user: BrowserUser, column: str) -> None:
    head = user.page.get_by_role("columnheader", name=column)
    head.get_by_role("button").click()
    expect(user.status).to_have_text("6,000 items")
    expect(head).to_have_attribute("aria-sort", "ascending")
    if column == "Size":
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", "descending")
    assert user.names[0] == "05999.txt"


def look_again(user: BrowserUser) -> None:
    """As when the tab becomes visible again."""
    user.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_a_tab_that_is_looked_at_again_keeps_selection_scroll_filter_and_rename(
    open_page: OpenPage, gateway: Gateway, root: Path
) -> None:
    for number in range(100):
        (root / f"{number:03}.txt").write_text("x")
    user = open_page(gateway, signed_in=True)
    user.row("005.txt").click()
    user.row("007.txt").click(modifiers=["Control"])
    user.grid.evaluate("grid => grid.scrollTop = 1500")
    expect(user.row("040.txt")).to_be_visible()
    place = "(name) => [...document.querySelectorAll('.row bdi')].find((b) => b.textContent === name).getBoundingClientRect().top"
    before = user.page.evaluate(place, "040.txt")
    user.grid.focus()
    user.press("F2")  # needs one: with two it does nothing
    expect(user.dialog).to_have_count(0)
    (root / "000 new.txt").write_text("x")
    (root / "001.txt").unlink()
    (root / "002.txt").unlink()
    (root / "005.txt").unlink()
    look_again(user)
    expect(user.status).to_have_text("98 items")
    expect(user.page.locator(".selection-actions")).to_contain_text("1 selected")
    assert abs(user.page.evaluate(place, "040.txt") - before) < 2
    user.press("Escape")
    user.row("040.txt").click()
    user.press("F2")
    field = user.dialog.get_by_label("New name")
    field.fill("half a na")
    (root / "041.txt").unlink()
    look_again(user)
    expect(user.status).to_have_text("97 items")
    expect(field).to_have_value("half a na")
    expect(field).to_be_focused()
    user.press("Enter")
    expect(user.active).to_have_text("half a na")
    assert (root / "half a na").exists()
    user.press("/")
    user.page.keyboard.type("09")
    (root / "09 newer.txt").write_text("x")
    look_again(user)
    expect(user.status).to_have_text("12 of 98 items match")
    expect(user.page.locator("#filter")).to_be_focused()


def test_an_upload_during_a_refresh_is_not_lost(user: BrowserUser, root: Path) -> None:
    """The response to a listing may be older than a file that was uploaded meanwhile."""
    user.page.goto(f"{user.gateway.url}/#/")
    expect(user.status).to_have_text("1 item")
    held: list[Route] = []
    user.page.route("**/*action=LIST*", lambda route: held.append(route))
    look_again(user)
    user.wait_until(lambda: held)
    answer = held[0].fetch()
    user.choose_files({"name": "new.txt", "mimeType": "text/plain", "buffer": b"new"})
    expect(user.row("new.txt")).to_be_visible()
    held[0].fulfill(response=answer)
    user.page.unroute("**/*action=LIST*")
    expect(user.status).to_have_text("2 items")
    expect(user.row("new.txt")).to_be_visible()


def test_refresh_button_shows_what_others_did(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "folder" / "inner").mkdir(parents=True)
    user = open_page(gateway, "/#/folder", signed_in=True)
    expect(user.row("inner")).to_be_visible()
    (root / "folder" / "new.txt").write_text("x")
    user.page.get_by_role("button", name="Refresh").click()
    user.expect_names("inner", "new.txt")
    expect(user.page.locator("#announcements")).to_have_text("Folder is up to date")
    (root / "folder" / "new.txt").unlink()
    (root / "folder" / "inner").rmdir()
    (root / "folder").rmdir()
    user.expect_refusal(404)
    user.page.get_by_role("button", name="Refresh").click()
    expect(user.heading).to_have_text("Folder not found")
    (root / "folder").mkdir()
    user.page.get_by_role("button", name="Refresh").click()
    expect(user.heading).to_have_text("This folder is empty")


def test_a_gentle_refresh_that_fails_says_nothing(user: BrowserUser) -> None:
    user.expect_refusal("net::ERR")
    user.page.context.set_offline(True)
    with user.page.expect_event("requestfailed"):
        look_again(user)
    user.page.context.set_offline(False)
    expect(user.status).to_have_text("Showing the first 250 items")
    expect(user.page.locator(".notice")).to_have_count(0)
