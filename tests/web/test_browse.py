"""Browsing: folders, addresses, order, filter, very many entries."""

import os
import re
from pathlib import Path

from playwright.sync_api import expect

from ..gateways import Gateway
from .browser_user import BrowserUser
from .conftest import PASSWORD, OpenPage

HOSTILE = (
    "<img src=x onerror=alert(1)>.txt",
    "\"quoted' & <b>bold.txt",
    "rtl עברית.txt",
    "100% #1 ?a=b;c+d.txt",
    "  blanks  .txt",
)


def test_folders_come_first_with_size_and_date(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "zoo").mkdir()
    (root / "file 10.csv").write_bytes(bytes(1_234_567))
    (root / "file 2.txt").write_bytes(bytes(10))
    os.utime(root / "file 2.txt", (1_700_000_000, 1_700_000_000))
    user = open_page(gateway, timezone_id="UTC", signed_in=True)
    user.expect_names("zoo", "file 2.txt", "file 10.csv")
    expect(user.row("file 10.csv").locator(".size")).to_have_text("1.2 MB")
    expect(user.row("file 2.txt").locator(".size")).to_have_text("10\u00a0B")
    expect(user.row("file 2.txt").locator(".modified")).to_have_text(re.compile(r"14 Nov 2023, 22:13"))
    expect(user.status).to_have_text("3 items")


def test_deep_link_back_and_forward(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "reports" / "2026 & more").mkdir(parents=True)
    (root / "reports" / "2026 & more" / "here.txt").write_text("x")
    user = open_page(gateway, "/#/reports/2026%20%26%20more", signed_in=True)
    page = user.page
    user.expect_names("here.txt")
    expect(page.locator(".crumb:visible")).to_have_text(["Files", "reports", "2026 & more"])
    page.get_by_role("link", name="reports", exact=True).click()
    expect(user.row("2026 & more")).to_be_visible()
    expect(user.active).to_have_text("2026 & more")
    assert page.title() == "reports · Portico"
    page.get_by_role("link", name="Files", exact=True).click()
    expect(user.row("reports")).to_be_visible()
    page.go_back()
    expect(user.row("2026 & more")).to_be_visible()
    page.go_back()
    expect(user.row("here.txt")).to_be_visible()
    page.go_forward()
    expect(user.row("2026 & more")).to_be_visible()
    assert page.url.endswith("/#/reports")


def test_back_restores_the_scroll_position(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    for number in range(600):
        (root / f"folder {number:03}").mkdir()
    user = open_page(gateway, signed_in=True)
    user.press("End")
    expect(user.status).to_have_text("600 items")
    user.press("End")
    expect(user.row("folder 599")).to_be_visible()
    where = user.grid.evaluate("grid => grid.scrollTop")
    user.open("folder 599")
    user.page.go_back()
    expect(user.row("folder 599")).to_be_visible()
    assert abs(user.grid.evaluate("grid => grid.scrollTop") - where) < 3
    expect(user.active).to_have_text("folder 599")


def test_empty_missing_and_forbidden_say_so(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    user = open_page(gateway, signed_in=True)
    expect(user.heading).to_have_text("This folder is empty")
    user.expect_refusal(404)
    user.page.goto(f"{gateway.url}/#/nowhere/at all")
    expect(user.heading).to_have_text("Folder not found")
    expect(user.page.locator(".placeholder p")).to_contain_text("It may have been moved or deleted.")


INVALID_ADDRESSES = (
    "..%2f..%2fsession",
    "../../session",
    "a/%2e%2e/%2e%2e/%2e%2e/session",
    "./a",
    "a//b",
    "/a",
    "a%00b",
    "a%5Cb",
    "%ff%fe",
    "100%",
    ".portico~staging",
)


def test_an_invalid_address_shows_the_root_and_requests_nothing_else(user: BrowserUser, root: Path) -> None:
    """The token goes with each request, so a link must not choose the route."""
    (root / "a").mkdir()
    for address in INVALID_ADDRESSES:
        user.requests.clear()
        user.page.goto(f"{user.gateway.url}/#/{address}")
        expect(user.page.get_by_role("alert"), address).to_contain_text("This address isn't a file or folder.")
        expect(user.row("a"), address).to_be_visible()
        assert user.page.url == f"{user.gateway.url}/#/", address
        asked = {url.removeprefix(user.gateway.url) for url in user.requests if "/backend" in url}
        assert asked == {"/backend/1.0.0/filesystem/?action=LIST&size=250"}, address
        user.page.goto(f"{user.gateway.url}/#/a/")
        expect(user.page.locator(".crumb[aria-current]")).to_have_text("a")
        user.settle()


def test_a_name_that_leads_out_of_the_folder_is_not_sent(user: BrowserUser) -> None:
    for name in ("..", "x/../../..", "."):
        user.requests.clear()
        user.page.get_by_role("button", name="New folder").click()
        user.dialog.get_by_label("Folder name").fill(name)
        user.press("Enter")
        expect(user.dialog.get_by_role("alert")).to_contain_text("This name isn't allowed.")
        assert user.requests == []
        user.press("Escape")


def test_filter_and_sorting(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    for number in range(40):
        file = root / f"{number:02} {'odd' if number % 2 else 'even'}.txt"
        file.write_bytes(bytes(1000 - number))
        os.utime(file, (1_700_000_000 + (number * 7 % 40) * 60,) * 2)
    user = open_page(gateway, signed_in=True)
    user.press("/")
    user.page.keyboard.type("3 ODD")
    user.expect_names("03 odd.txt", "13 odd.txt", "23 odd.txt", "33 odd.txt")
    expect(user.status).to_have_text("4 of 40 items match")
    user.press("Escape")
    user.page.get_by_role("button", name="Size").click()
    assert user.names[0] == "39 odd.txt"
    expect(user.page.get_by_role("columnheader", name="Size")).to_have_attribute("aria-sort", "ascending")
    user.page.get_by_role("button", name="Size").click()
    assert user.names[0] == "00 even.txt"
    user.page.get_by_role("button", name="Modified").click()
    assert user.names[:2] == ["00 even.txt", "23 odd.txt"]


def test_hostile_names_are_text(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    for name in HOSTILE:
        (root / name).write_text(f"the content of {name}")
    (root / "<u>folder").mkdir()
    user = open_page(gateway, signed_in=True)
    assert sorted(user.names) == sorted([*HOSTILE, "<u>folder"])
    assert user.page.locator(".grid img:not(.thumbnail), .grid b, .grid u").count() == 0
    assert user.row(HOSTILE[2]).locator("bdi").evaluate("bdi => getComputedStyle(bdi).unicodeBidi") == "isolate"
    for name in HOSTILE:
        user.row(name).locator(".open").click()
        expect(user.dialog.locator("pre")).to_have_text(f"the content of {name}", use_inner_text=False)
        user.press("Escape")
    user.row(HOSTILE[0]).click()
    user.press("Delete")
    expect(user.dialog).to_contain_text(HOSTILE[0])
    user.dialog.get_by_role("button", name="Delete").click()
    expect(user.status).to_have_text("5 items")
    user.open("<u>folder")


def test_a_hundred_thousand_entries(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "many").mkdir()
    folder = os.open(root / "many", os.O_RDONLY)
    for number in range(100_000):
        os.close(os.open(f"entry {number:06}.txt", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=folder))
    os.close(folder)
    user = open_page(gateway, signed_in=True)
    page = user.page
    user.requests.clear()
    user.open("many")
    expect(user.row("entry 000000.txt")).to_be_visible()
    expect(user.status).to_have_text("Showing the first 250 items")
    assert len([url for url in user.requests if "action=LIST" in url]) == 1
    user.grid.evaluate("grid => grid.scrollTop = grid.scrollHeight")
    expect(user.status).to_have_text("Showing the first 1,250 items")
    user.grid.evaluate("grid => grid.scrollTop = 0")
    user.press("/")
    page.keyboard.type("99999")
    expect(user.status).to_have_text("1 of 100,000 items matches")
    user.expect_names("entry 099999.txt")
    user.press("Escape")
    expect(user.status).to_have_text("100,000 items")
    user.grid.focus()
    user.press("End")
    expect(user.row("entry 099999.txt")).to_be_visible()
    assert page.locator(".grid .row").count() < 100
    assert page.evaluate("performance.memory.usedJSHeapSize") < 100_000_000
    page.get_by_role("button", name="Name").click()
    user.grid.focus()
    user.press("Home")
    expect(user.row("entry 099999.txt")).to_be_visible()


def test_rights_decide_what_is_offered(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "a.txt").write_text("x")
    offered = {}
    for name in ("reader", "dropper", "sender"):
        user: BrowserUser = open_page(gateway)
        user.sign_in(name, PASSWORD)
        expect(user.page.locator(".folder-view")).to_be_visible()
        user.settle()
        offered[name] = user.page.locator("[role=toolbar]:visible button").all_inner_texts()
        if name == "dropper":
            expect(user.heading).to_have_text("You can upload files here, but not view them")
            continue
        user.row("a.txt").click()
        offered[name] += user.page.locator(".selection-actions button span").all_inner_texts()
    assert offered == {
        "reader": ["Download folder", "Automate", "Download"],
        "dropper": ["Upload", "New folder", "Automate"],
        "sender": ["Upload", "New folder", "Automate"],
    }


def test_a_folder_opens_when_the_network_is_back(user: BrowserUser, root: Path) -> None:
    (root / "folder").mkdir()
    (root / "folder" / "file.txt").write_text("x")
    user.press("r")
    user.expect_refusal("ERR_INTERNET_DISCONNECTED")
    user.page.context.set_offline(True)
    user.row("folder").locator(".open").click()
    expect(user.page.get_by_role("button", name="Try again")).to_be_visible()
    user.page.context.set_offline(False)
    expect(user.row("file.txt")).to_be_visible()


def test_a_new_folder_has_its_date(user: BrowserUser) -> None:
    user.page.get_by_role("button", name="New folder").click()
    user.dialog.get_by_label("Folder name").fill("new")
    user.press("Enter")
    expect(user.row("new").locator(".modified")).to_have_text(re.compile(r"\d{4}"))
