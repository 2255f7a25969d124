"""Folders and selections are downloaded as one ZIP."""

import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Download, expect

from portico.model.visible_text import visible

from ..gateways import Gateway
from .browser_user import BrowserUser
from .conftest import PASSWORD, OpenPage

HOSTILE = "100% #1 ?a=b&paths=x;<b>é\u202e.txt"


@pytest.fixture
def user(open_page: OpenPage, gateway: Gateway, root: Path) -> BrowserUser:
    """Signed in, with a few files and folders."""
    (root / "trip" / "day 1").mkdir(parents=True)
    (root / "trip" / "day 1" / "sea.txt").write_text("waves")
    (root / "trip" / HOSTILE).write_text("odd")
    (root / "trip" / "notes.txt").write_text("notes")
    (root / "alone.txt").write_text("alone")
    return open_page(gateway, signed_in=True)


def content(download: Download) -> dict[str, str]:
    """The files of a ZIP by name; its folders are left out."""
    with zipfile.ZipFile(download.path()) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name).decode() for name in archive.namelist() if not name.endswith("/")}


def test_a_selection_is_one_zip(user: BrowserUser) -> None:
    user.open("trip")
    user.row(visible(HOSTILE)).click()
    user.row("day 1").click(modifiers=["Control"])
    saved: list[Download] = []
    user.page.on("download", lambda download: saved.append(download))
    user.page.get_by_role("button", name="Download", exact=True).click()
    expect(user.page.locator(".notice")).to_contain_text("The ZIP starts downloading in a moment")
    user.wait_until(lambda: saved)
    assert content(saved[0]) == {HOSTILE: "odd", "day 1/sea.txt": "waves"}
    assert saved[0].suggested_filename.endswith(".zip")
    assert len(saved) == 1
    assert user.page.url.endswith("/#/trip")
    expect(user.page.locator("form[method=post]")).to_have_count(0)


def test_a_folder_is_one_zip(user: BrowserUser) -> None:
    with user.page.expect_download() as started:
        user.act("trip", "Download")
    assert started.value.suggested_filename == "trip.zip"
    found = content(started.value)
    assert sorted(found.values()) == ["notes", "odd", "waves"]
    user.open("trip")
    with user.page.expect_download() as started:
        user.page.get_by_role("button", name="Download folder").click()
    assert content(started.value) == found
    with user.page.expect_download() as started:
        user.press("Shift+D")
    assert content(started.value) == found


def test_a_refused_selection_leaves_the_page(user: BrowserUser, root: Path) -> None:
    user.open("trip")
    user.press("Control+a")
    (root / "trip" / "notes.txt").unlink()
    with user.page.expect_popup() as opened:
        user.press("d")
    expect(opened.value.locator("body")).to_contain_text("not-found")
    assert user.page.url.endswith("/#/trip")
    expect(user.row("day 1")).to_be_visible()


def test_without_the_right_nothing_is_offered(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "folder").mkdir()
    sender = open_page(gateway)
    sender.sign_in("sender", PASSWORD)
    expect(sender.row("folder")).to_be_visible()
    expect(sender.page.get_by_role("button", name="Download folder")).to_have_count(0)
    sender.row("folder").click()
    expect(sender.page.get_by_role("button", name="Clear selection")).to_be_visible()
    expect(sender.page.get_by_role("button", name="Download", exact=True)).to_have_count(0)
