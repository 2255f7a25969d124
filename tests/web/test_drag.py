"""Moves by drag, drops onto folders, and pasted files."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from ..gateways import Gateway
from .browser_user import BrowserUser
from .conftest import PASSWORD, OpenPage


@pytest.fixture
def user(open_page: OpenPage, gateway: Gateway, root: Path) -> BrowserUser:
    (root / "archive" / "old").mkdir(parents=True)
    (root / "inbox").mkdir()
    for name in ("alpha.txt", "beta.txt", "gamma.txt"):
        (root / name).write_text(name)
    user = open_page(gateway)
    user.sign_in()
    return user


def name_cell(user: BrowserUser, name: str) -> Locator:
    """Where there is nothing to click, but the row to drag."""
    return user.row(name).locator(".cell.modified")


def drag(user: BrowserUser, source: Locator, target: Locator, *, drop: bool = True) -> None:
    source.hover()
    user.page.mouse.down()
    target.hover()
    target.hover()  # a drag begins with the second movement
    if drop:
        user.page.mouse.up()


def test_rows_are_dragged_onto_folders(user: BrowserUser, root: Path) -> None:
    user.row("alpha.txt").locator("input").check()
    user.row("gamma.txt").locator("input").check()
    drag(user, name_cell(user, "gamma.txt"), name_cell(user, "archive"), drop=False)
    expect(user.row("archive")).to_have_class("row folder drop-target")
    user.page.mouse.up()
    expect(user.page.locator(".notice")).to_contain_text("2 items moved to archive")
    user.expect_names("archive", "inbox", "beta.txt")
    assert {each.name for each in (root / "archive").iterdir()} == {"old", "alpha.txt", "gamma.txt"}
    # A row that is not selected goes alone, and becomes the selection.
    drag(user, name_cell(user, "inbox"), name_cell(user, "archive"))
    user.expect_names("archive", "beta.txt")
    # A file is no target, and nothing goes into itself.
    drag(user, name_cell(user, "archive"), name_cell(user, "beta.txt"))
    user.open("archive")
    assert set(user.names) == {"inbox", "old", "alpha.txt", "gamma.txt"}
    # Back, over the path; a name that is taken is asked about, as by the dialog.
    (root / "alpha.txt").write_text("another")
    drag(user, name_cell(user, "alpha.txt"), user.page.locator(".breadcrumb-bar .crumb").first)
    user.expect_refusal(409)
    user.dialog.get_by_role("button", name="Keep both").click()
    expect(user.page.locator(".notice").last).to_contain_text("Saved as alpha (1).txt")
    assert (root / "alpha (1).txt").read_text() == "alpha.txt"
    assert (root / "alpha.txt").read_text() == "another"
    expect(user.page.locator(".drop-target")).to_have_count(0)


def test_without_the_right_nothing_is_dragged(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "folder").mkdir()
    (root / "file").touch()
    user = open_page(gateway)
    user.sign_in("reader", PASSWORD)
    user.settle()
    drag(user, name_cell(user, "file"), name_cell(user, "folder"))
    expect(user.page.locator(".drop-target")).to_have_count(0)
    assert (root / "file").exists()


def test_files_are_dropped_onto_a_folder(user: BrowserUser, root: Path, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("from the desktop")
    box = user.row("inbox").bounding_box()
    assert box
    session = user.page.context.new_cdp_session(user.page)
    data = {"items": [], "files": [str(tmp_path / "new.txt")], "dragOperationsMask": 1}
    place = {"x": box["x"] + 300, "y": box["y"] + 20}
    for kind in ("dragEnter", "dragOver"):
        session.send("Input.dispatchDragEvent", {"type": kind, **place, "data": data})
    expect(user.row("inbox")).to_have_class("row folder drop-target")
    expect(user.page.locator(".drop-zone")).to_contain_text("Drop to upload to inbox")
    session.send("Input.dispatchDragEvent", {"type": "drop", **place, "data": data})
    session.detach()
    expect(user.upload_panel).to_contain_text("1 file uploaded")
    assert (root / "inbox" / "new.txt").read_text() == "from the desktop"
    expect(user.page.locator(".drop-target")).to_have_count(0)
    user.expect_names("archive", "inbox", "alpha.txt", "beta.txt", "gamma.txt")


PASTE = """(target) => {
  const data = new DataTransfer();
  data.items.add(new File(["pasted"], "image.png", {type: "image/png"}));
  target.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
}"""


def test_files_are_pasted(user: BrowserUser, root: Path) -> None:
    user.page.locator("#filter").evaluate(PASTE)  # text goes there, not files
    user.open("inbox")
    user.grid.or_(user.heading).first.evaluate(PASTE)
    user.expect_names("image.png")
    assert (root / "inbox" / "image.png").read_text() == "pasted"
    assert not (root / "image.png").exists()
    user.press("?")
    expect(user.dialog).to_contain_text("Upload copied files")
