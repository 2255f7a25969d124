"""What the page says by the way ends in time and is never in the way."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from ..gateways import Gateway
from .conftest import Visit
from .test_layout import SIZES, sign_in
from .visitors import Visitor, file


def complain(visitor: Visitor) -> Locator:
    """Follow a link that names no folder."""
    visitor.page.evaluate("location.hash = '#/../x'")
    notice = visitor.page.locator(".notice.bad")
    expect(notice).to_be_visible()
    return notice


def test_a_notice_ends_with_the_folder_or_with_escape(visitor: Visitor, root: Path) -> None:
    (root / "folder").mkdir()
    visitor.press("r")
    notice = complain(visitor)
    visitor.open("folder")
    expect(notice).to_have_count(0)
    complain(visitor)
    visitor.press("Escape")
    expect(notice).to_have_count(0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("uploads", [0, 30])
def test_a_notice_covers_neither_header_nor_count_nor_uploads(
    visit: Visit, gateway: Gateway, root: Path, size: str, uploads: int
) -> None:
    (root / "folder").mkdir()
    visitor = sign_in(visit(gateway, **SIZES[size]))
    visitor.choose_files(*(file(f"{number}.txt") for number in range(uploads)))
    if uploads:
        expect(visitor.tray).to_contain_text("30 files uploaded")
    notice = complain(visitor).bounding_box()
    assert notice
    others = [visitor.page.locator(".top"), visitor.status, *([visitor.tray] if uploads else [])]
    for other in others:
        box = other.bounding_box()
        assert box
        beside = notice["x"] >= box["x"] + box["width"] or notice["x"] + notice["width"] <= box["x"]
        assert beside or notice["y"] >= box["y"] + box["height"] or notice["y"] + notice["height"] <= box["y"]
