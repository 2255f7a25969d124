"""Notices disappear in time and cover nothing important."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from ..gateways import Gateway
from .browser_user import BrowserUser, file
from .conftest import OpenPage
from .test_layout import SIZES


def show_error(user: BrowserUser) -> Locator:
    """Follow an invalid link."""
    user.page.evaluate("location.hash = '#/../x'")
    notice = user.page.locator(".notice.bad")
    expect(notice).to_be_visible()
    return notice


def test_a_notice_ends_with_the_folder_or_with_escape(user: BrowserUser, root: Path) -> None:
    (root / "folder").mkdir()
    user.press("r")
    notice = show_error(user)
    user.open("folder")
    expect(notice).to_have_count(0)
    show_error(user)
    user.press("Escape")
    expect(notice).to_have_count(0)


@pytest.mark.parametrize("size", SIZES)
def test_a_notice_covers_neither_header_nor_count_nor_uploads(
    open_page: OpenPage, gateway: Gateway, root: Path, size: str
) -> None:
    (root / "folder").mkdir()
    user = open_page(gateway, **SIZES[size], signed_in=True)
    assert_free(show_error(user), user.page.locator(".app-bar"), user.status)
    user.press("Escape")
    user.choose_files(*(file(f"{number}.txt") for number in range(30)))
    expect(user.upload_panel).to_contain_text("30 files uploaded")
    assert_free(show_error(user), user.page.locator(".app-bar"), user.status, user.upload_panel)


def assert_free(element: Locator, *others: Locator) -> None:
    """It covers none of the others."""
    box = element.bounding_box()
    assert box
    for other in others:
        there = other.bounding_box()
        assert there
        beside = box["x"] >= there["x"] + there["width"] or box["x"] + box["width"] <= there["x"]
        assert beside or box["y"] >= there["y"] + there["height"] or box["y"] + box["height"] <= there["y"]
