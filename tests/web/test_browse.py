"""Finding one's way: folders, addresses, order, filter, very many entries."""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ..gateways import Gateway
from .conftest import OTHERS, PASSWORD, Visit
from .visitors import Visitor

HOSTILE = (
    "<img src=x onerror=alert(1)>.txt",
    "\"quoted' & <b>bold.txt",
    "\u202eexe.gpj\u202c.txt",
    "100% #1 ?a=b;c+d.txt",
    "  blanks  .txt",
)


def test_folders_come_first_with_size_and_date(visit: Visit, gateway: Gateway, root: Path) -> None:
    (root / "zoo").mkdir()
    (root / "file 10.csv").write_bytes(bytes(1_234_567))
    (root / "file 2.txt").write_bytes(bytes(10))
    os.utime(root / "file 2.txt", (1_700_000_000, 1_700_000_000))
    visitor = visit(gateway, timezone_id="UTC")
    visitor.sign_in()
    visitor.expect_names("zoo", "file 2.txt", "file 10.csv")
    expect(visitor.row("file 10.csv").locator(".size")).to_have_text("1.2 MB")
    expect(visitor.row("file 2.txt").locator(".size")).to_have_text("10\u00a0B")
    expect(visitor.row("file 2.txt").locator(".modified")).to_have_text(re.compile(r"14 Nov 2023, 22:13"))
    expect(visitor.status).to_have_text("3 items")


def test_deep_link_back_and_forward(visit: Visit, gateway: Gateway, root: Path) -> None:
    (root / "reports" / "2026 & more").mkdir(parents=True)
    (root / "reports" / "2026 & more" / "here.txt").write_text("x")
    visitor = visit(gateway, "/#/reports/2026%20%26%20more")
    visitor.sign_in()
    page = visitor.page
    visitor.expect_names("here.txt")
    expect(page.locator(".crumb:visible")).to_have_text(["Files", "reports", "2026 & more"])
    page.get_by_role("link", name="reports", exact=True).click()
    expect(visitor.row("2026 & more")).to_be_visible()
    expect(visitor.active).to_have_text("2026 & more")
    assert page.title() == "reports · Portico"
    page.get_by_role("link", name="Files", exact=True).click()
    expect(visitor.row("reports")).to_be_visible()
    page.go_back()
    expect(visitor.row("2026 & more")).to_be_visible()
    page.go_back()
    expect(visitor.row("here.txt")).to_be_visible()
    page.go_forward()
    expect(visitor.row("2026 & more")).to_be_visible()
    assert page.url.endswith("/#/reports")


def test_back_restores_the_scroll_position(visit: Visit, gateway: Gateway, root: Path) -> None:
    for number in range(600):
        (root / f"folder {number:03}").mkdir()
    visitor = visit(gateway)
    visitor.sign_in()
    visitor.press("End")
    expect(visitor.status).to_have_text("600 items")
    visitor.press("End")
    expect(visitor.row("folder 599")).to_be_visible()
    where = visitor.grid.evaluate("grid => grid.scrollTop")
    visitor.open("folder 599")
    visitor.page.go_back()
    expect(visitor.row("folder 599")).to_be_visible()
    assert abs(visitor.grid.evaluate("grid => grid.scrollTop") - where) < 3
    expect(visitor.active).to_have_text("folder 599")


def test_empty_missing_and_forbidden_say_so(visit: Visit, gateway: Gateway, root: Path) -> None:
    visitor = visit(gateway)
    visitor.sign_in()
    expect(visitor.heading).to_have_text("This folder is empty")
    visitor.expect_refusal(404)
    visitor.page.goto(f"{gateway.url}/#/nowhere/at all")
    expect(visitor.heading).to_have_text("There is no such folder")
    expect(visitor.page.locator(".state p")).to_contain_text("Somebody may have moved or deleted it.")
    (root / "a file").write_text("x")
    visitor.expect_refusal(409)
    visitor.page.goto(f"{gateway.url}/#/a%20file")
    expect(visitor.heading).to_have_text("There is no such folder")


@pytest.mark.parametrize(
    "address",
    [
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
    ],
)
def test_an_address_that_is_no_path_shows_the_root_and_asks_nothing_else(
    visitor: Visitor, root: Path, address: str
) -> None:
    """The token goes with each request, so a link must not choose the route."""
    (root / "a").mkdir()
    visitor.requests.clear()
    visitor.page.goto(f"{visitor.gateway.url}/#/{address}")
    expect(visitor.page.get_by_role("alert")).to_contain_text("This address does not lead to a folder.")
    expect(visitor.row("a")).to_be_visible()
    assert visitor.page.url == f"{visitor.gateway.url}/#/"
    asked = {url.removeprefix(visitor.gateway.url) for url in visitor.requests if "/backend" in url}
    assert asked == {"/backend/1.0.0/filesystem/?action=LIST&size=250"}
    visitor.page.goto(f"{visitor.gateway.url}/#/a/")
    expect(visitor.page.locator(".crumb[aria-current]")).to_have_text("a")


def test_a_name_that_leads_out_of_the_folder_is_not_sent(visitor: Visitor) -> None:
    for name in ("..", "x/../../..", "."):
        visitor.requests.clear()
        visitor.page.get_by_role("button", name="New folder").click()
        visitor.dialog.get_by_label("Name of the folder").fill(name)
        visitor.press("Enter")
        expect(visitor.dialog.get_by_role("alert")).to_contain_text("This name cannot be used.")
        assert visitor.requests == []
        visitor.press("Escape")


def test_filter_and_sorting(visit: Visit, gateway: Gateway, root: Path) -> None:
    for number in range(40):
        file = root / f"{number:02} {'odd' if number % 2 else 'even'}.txt"
        file.write_bytes(bytes(1000 - number))
        os.utime(file, (1_700_000_000 + (number * 7 % 40) * 60,) * 2)
    visitor = visit(gateway)
    visitor.sign_in()
    visitor.press("/")
    visitor.page.keyboard.type("3 ODD")
    visitor.expect_names("03 odd.txt", "13 odd.txt", "23 odd.txt", "33 odd.txt")
    expect(visitor.status).to_have_text("4 of 40 items match")
    visitor.press("Escape")
    visitor.page.get_by_role("button", name="Size").click()
    assert visitor.names[0] == "39 odd.txt"
    expect(visitor.page.get_by_role("columnheader", name="Size")).to_have_attribute("aria-sort", "ascending")
    visitor.page.get_by_role("button", name="Size").click()
    assert visitor.names[0] == "00 even.txt"
    visitor.page.get_by_role("button", name="Modified").click()
    assert visitor.names[:2] == ["00 even.txt", "23 odd.txt"]


def test_hostile_names_are_text(visit: Visit, gateway: Gateway, root: Path) -> None:
    for name in HOSTILE:
        (root / name).write_text(f"the content of {name}")
    (root / "<u>folder").mkdir()
    visitor = visit(gateway)
    visitor.sign_in()
    assert sorted(visitor.names) == sorted([*HOSTILE, "<u>folder"])
    assert visitor.page.locator(".grid img, .grid b, .grid u").count() == 0
    assert (
        visitor.row(HOSTILE[2]).locator("bdi").evaluate("bdi => getComputedStyle(bdi).unicodeBidi")
        == "isolate"
    )
    for name in HOSTILE:
        visitor.row(name).locator(".open").click()
        expect(visitor.dialog.locator("pre")).to_have_text(f"the content of {name}", use_inner_text=False)
        visitor.press("Escape")
    visitor.row(HOSTILE[0]).click()
    visitor.press("Delete")
    expect(visitor.dialog).to_contain_text(HOSTILE[0])
    visitor.dialog.get_by_role("button", name="Delete").click()
    expect(visitor.status).to_have_text("5 items")
    visitor.open("<u>folder")


def test_a_hundred_thousand_entries(visit: Visit, gateway: Gateway, root: Path) -> None:
    (root / "many").mkdir()
    folder = os.open(root / "many", os.O_RDONLY)
    for number in range(100_000):
        os.close(os.open(f"entry {number:06}.txt", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=folder))
    os.close(folder)
    visitor = visit(gateway)
    visitor.sign_in()
    page = visitor.page
    visitor.requests.clear()
    visitor.open("many")
    expect(visitor.row("entry 000000.txt")).to_be_visible()
    expect(visitor.status).to_have_text("First 250 shown")
    assert len([url for url in visitor.requests if "action=LIST" in url]) == 1
    visitor.grid.evaluate("grid => grid.scrollTop = grid.scrollHeight")
    expect(visitor.status).to_have_text("First 1,250 shown")
    visitor.grid.evaluate("grid => grid.scrollTop = 0")
    visitor.press("/")
    page.keyboard.type("99999")
    expect(visitor.status).to_have_text("1 of 100,000 items matches", timeout=40_000)
    visitor.expect_names("entry 099999.txt")
    visitor.press("Escape")
    expect(visitor.status).to_have_text("100,000 items")
    visitor.grid.focus()
    visitor.press("End")
    expect(visitor.row("entry 099999.txt")).to_be_visible()
    assert page.locator(".grid .row").count() < 100
    assert page.evaluate("performance.memory.usedJSHeapSize") < 100_000_000
    page.get_by_role("button", name="Name").click()
    visitor.grid.focus()
    visitor.press("Home")
    expect(visitor.row("entry 099999.txt")).to_be_visible()


def test_rights_decide_what_is_offered(visit: Visit, gateway: Gateway, root: Path) -> None:
    (root / "a.txt").write_text("x")
    offered = {}
    for name in OTHERS:
        visitor: Visitor = visit(gateway)
        visitor.sign_in(name, PASSWORD)
        expect(visitor.page.locator(".folder-view")).to_be_visible()
        visitor.settle()
        offered[name] = visitor.page.locator("[role=toolbar]:visible button").all_inner_texts()
        if name == "dropper":
            expect(visitor.heading).to_have_text("You may upload here, but not see what is there")
            continue
        visitor.row("a.txt").click()
        offered[name] += visitor.page.locator(".chosen button span").all_inner_texts()
    assert offered == {
        "reader": ["Automate", "Download"],
        "dropper": ["Upload", "New folder", "Automate"],
        "sender": ["Upload", "New folder", "Automate"],
    }
