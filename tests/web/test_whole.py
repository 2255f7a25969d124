"""Folders that are not wholly loaded, and folders that change: what is shown is what is there."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from ..gateways import Gateway
from .conftest import Visit
from .visitors import Visitor

MANY = 6_000


@pytest.fixture
def visitor(visit: Visit, gateway: Gateway, root: Path) -> Visitor:
    """At a folder of which the first 250 entries are loaded; the last has the most bytes and is the oldest."""
    (root / "many").mkdir()
    folder = os.open(root / "many", os.O_RDONLY)
    for number in range(MANY):
        os.close(os.open(f"{number:05}.txt", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=folder))
    os.close(folder)
    last = root / "many" / f"{MANY - 1:05}.txt"
    last.write_bytes(bytes(1000))
    os.utime(last, (1_000_000_000, 1_000_000_000))
    visitor = visit(gateway, "/#/many")
    visitor.sign_in()
    expect(visitor.status).to_have_text("First 250 shown")
    return visitor


Release = Callable[[], None]


def hold_further_pages(visitor: Visitor) -> tuple[list[Route], Release]:
    """Pages after the first wait until they are released."""
    held: list[Route] = []
    visitor.page.route("**/*cursor=*", lambda route: held.append(route))

    def release() -> None:
        for route in held:
            route.continue_()
        visitor.page.unroute("**/*cursor=*")

    return held, release


def test_a_filter_loads_the_rest_and_shows_how_far_it_is(visitor: Visitor) -> None:
    _, release = hold_further_pages(visitor)
    visitor.press("/")
    visitor.page.keyboard.type("05050")
    expect(visitor.heading).to_have_text("Searching the whole folder …")
    expect(visitor.status).to_have_text("0 matches among 250 so far …")
    expect(visitor.page.get_by_role("button", name="Stop")).to_be_visible()
    visitor.check_access()
    release()
    visitor.expect_names("05050.txt")
    expect(visitor.status).to_have_text("1 of 6,000 items matches")
    expect(visitor.page.locator("#filter")).to_be_focused()
    visitor.page.keyboard.type("x")
    expect(visitor.heading).to_have_text("Nothing matches")


def test_a_search_can_be_stopped_and_then_says_what_it_left_out(visitor: Visitor) -> None:
    held, release = hold_further_pages(visitor)
    visitor.press("/")
    visitor.page.keyboard.type("5999")
    visitor.page.get_by_role("button", name="Stop").click()
    asked = len(held)
    release()
    expect(visitor.page.get_by_role("button", name="Load everything")).to_be_visible()
    assert asked == 1
    expect(visitor.status).to_contain_text("the rest is not loaded")


def test_a_page_that_does_not_come_ends_the_search_with_its_reason(visitor: Visitor) -> None:
    visitor.expect_refusal("net::ERR")
    visitor.page.route("**/*cursor=*", lambda route: route.abort())
    visitor.press("/")
    visitor.page.keyboard.type("5999")
    expect(visitor.page.get_by_role("alert")).to_contain_text("The gateway cannot be reached")
    expect(visitor.heading).to_have_text("Nothing loaded so far matches")
    expect(visitor.status).to_have_text("0 matches among the first 250; the rest is not loaded")


@pytest.mark.parametrize("column", ["Size", "Modified"])
def test_sorting_loads_the_rest_first(visitor: Visitor, column: str) -> None:
    head = visitor.page.get_by_role("columnheader", name=column)
    head.get_by_role("button").click()
    expect(visitor.status).to_have_text("6,000 items")
    expect(head).to_have_attribute("aria-sort", "ascending")
    if column == "Size":
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", "descending")
    assert visitor.names[0] == "05999.txt"


def look_again(visitor: Visitor) -> None:
    """As when the tab comes to the front."""
    visitor.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_a_tab_that_is_looked_at_again_keeps_selection_scroll_filter_and_rename(
    visit: Visit, gateway: Gateway, root: Path
) -> None:
    for number in range(100):
        (root / f"{number:03}.txt").write_text("x")
    visitor = visit(gateway)
    visitor.sign_in()
    visitor.row("005.txt").click()
    visitor.row("007.txt").click(modifiers=["Control"])
    visitor.grid.evaluate("grid => grid.scrollTop = 1500")
    expect(visitor.row("040.txt")).to_be_visible()
    place = "(name) => [...document.querySelectorAll('.row bdi')].find((b) => b.textContent === name).getBoundingClientRect().top"
    before = visitor.page.evaluate(place, "040.txt")
    visitor.grid.focus()
    visitor.press("F2")  # needs one: with two it does nothing
    expect(visitor.dialog).to_have_count(0)
    (root / "000 new.txt").write_text("x")
    (root / "001.txt").unlink()
    (root / "002.txt").unlink()
    (root / "005.txt").unlink()
    look_again(visitor)
    expect(visitor.status).to_have_text("98 items")
    expect(visitor.page.locator(".chosen")).to_contain_text("1 selected")
    assert abs(visitor.page.evaluate(place, "040.txt") - before) < 2
    visitor.press("Escape")
    visitor.row("040.txt").click()
    visitor.press("F2")
    field = visitor.dialog.get_by_label("New name")
    field.fill("half a na")
    (root / "041.txt").unlink()
    look_again(visitor)
    expect(visitor.status).to_have_text("97 items")
    expect(field).to_have_value("half a na")
    expect(field).to_be_focused()
    visitor.press("Enter")
    expect(visitor.active).to_have_text("half a na")
    assert (root / "half a na").exists()
    visitor.press("/")
    visitor.page.keyboard.type("09")
    (root / "09 newer.txt").write_text("x")
    look_again(visitor)
    expect(visitor.status).to_have_text("12 of 98 items match")
    expect(visitor.page.locator("#filter")).to_be_focused()


def test_an_upload_during_a_refresh_is_not_lost(visitor: Visitor, root: Path) -> None:
    """The answer to a listing may be older than a file that has come meanwhile."""
    visitor.page.goto(f"{visitor.gateway.url}/#/")
    expect(visitor.status).to_have_text("1 item")
    held: list[Route] = []
    visitor.page.route("**/*action=LIST*", lambda route: held.append(route))
    look_again(visitor)
    while not held:
        visitor.page.wait_for_timeout(20)
    answer = held[0].fetch()
    visitor.choose_files({"name": "new.txt", "mimeType": "text/plain", "buffer": b"new"})
    expect(visitor.row("new.txt")).to_be_visible()
    held[0].fulfill(response=answer)
    visitor.page.unroute("**/*action=LIST*")
    expect(visitor.status).to_have_text("2 items")
    expect(visitor.row("new.txt")).to_be_visible()


def test_refresh_button_shows_what_others_did(visit: Visit, gateway: Gateway, root: Path) -> None:
    (root / "folder" / "inner").mkdir(parents=True)
    visitor = visit(gateway, "/#/folder")
    visitor.sign_in()
    expect(visitor.row("inner")).to_be_visible()
    (root / "folder" / "new.txt").write_text("x")
    visitor.page.get_by_role("button", name="Refresh").click()
    visitor.expect_names("inner", "new.txt")
    expect(visitor.page.locator("#announcements")).to_have_text("The folder is up to date.")
    (root / "folder" / "new.txt").unlink()
    (root / "folder" / "inner").rmdir()
    (root / "folder").rmdir()
    visitor.expect_refusal(404)
    visitor.page.get_by_role("button", name="Refresh").click()
    expect(visitor.heading).to_have_text("There is no such folder")
    (root / "folder").mkdir()
    visitor.page.get_by_role("button", name="Refresh").click()
    expect(visitor.heading).to_have_text("This folder is empty")


def test_a_gentle_refresh_that_fails_says_nothing(visitor: Visitor) -> None:
    visitor.expect_refusal("net::ERR")
    visitor.page.context.set_offline(True)
    with visitor.page.expect_event("requestfailed"):
        look_again(visitor)
    visitor.page.context.set_offline(False)
    expect(visitor.status).to_have_text("First 250 shown")
    expect(visitor.page.locator(".notice")).to_have_count(0)
