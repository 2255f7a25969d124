"""The page at the width of a phone: nothing is hidden, cut off, or told that a phone cannot do."""

from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Locator, expect

from ..gateways import Gateway
from .browser_user import BrowserUser, file
from .conftest import PASSWORD, OpenPage
from .test_delivery import LANGUAGES

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def shared(gateway: Gateway) -> Callable[[str, str], str]:
    """Makes a link of the user `phone`, and returns its address."""
    header = {"Authorization": f"Bearer {gateway.login('phone', PASSWORD)['access_token']}"}

    def make(path: str, kind: str) -> str:
        body = {"path": path, "kind": kind, "askName": False}
        answer = httpx2.post(f"{gateway.url}/backend/1.0.0/account/links", json=body, headers=header)
        return f"/s/{answer.json()['token']}"

    return make


def is_uncovered(element: Locator) -> bool:
    """Whether a tap in its middle reaches it."""
    uncovered: bool = element.evaluate(
        """(it) => {
          const {x, y, width, height} = it.getBoundingClientRect();
          return it.contains(document.elementFromPoint(x + width / 2, y + height / 2));
        }"""
    )
    return uncovered


def test_a_sender_reaches_the_receipts(
    open_page: OpenPage, gateway: Gateway, root: Path, shared: Callable[[str, str], str]
) -> None:
    (root / "inbox").mkdir()
    user = open_page(gateway, shared("/inbox", "request"), **PHONE)
    expect(user.page.get_by_text("Choose the files to send.")).to_be_visible()
    expect(user.page.get_by_text("Drop files")).to_have_count(0)
    user.choose_files(*(file(f"report {number}.txt") for number in range(4)))
    save = user.page.get_by_role("button", name="Save receipts")
    expect(save).to_be_visible()
    expect(user.upload_panel).to_be_hidden()
    save.scroll_into_view_if_needed()
    assert is_uncovered(save)
    user.check_access()


def test_an_empty_folder_on_a_phone_speaks_of_the_button(open_page: OpenPage, gateway: Gateway) -> None:
    user = open_page(gateway, signed_in=True, **PHONE)
    expect(user.page.locator(".placeholder")).to_contain_text("Upload files with the button above.")


@pytest.mark.parametrize("kind", ["request", "both", "download"])
def test_every_page_has_one_first_level_heading(
    open_page: OpenPage, gateway: Gateway, root: Path, shared: Callable[[str, str], str], kind: str
) -> None:
    (root / "inbox" / "inner").mkdir(parents=True)
    guest = open_page(gateway, shared("/inbox", kind))
    heading = guest.page.get_by_role("heading", level=1)
    expect(heading).to_have_count(1)
    assert heading.inner_text()
    user = open_page(gateway, "/#/inbox", signed_in=True)
    expect(user.page.get_by_role("heading", level=1)).to_have_text("inbox")


@pytest.mark.parametrize("language", LANGUAGES)
def test_tabs_of_the_account_fit(open_page: OpenPage, gateway: Gateway, language: str) -> None:
    user: BrowserUser = open_page(gateway, signed_in=True, locale=language, **PHONE)
    user.page.locator(".app-bar button[aria-haspopup]").click()
    user.page.get_by_role("menuitem").first.click()
    tabs = user.page.get_by_role("tab")
    expect(tabs).to_have_count(3)
    for index in range(3):
        box = tabs.nth(index).bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert box["height"] >= 40
