"""Files: download, preview, new folder, rename, move, copy, delete, automate."""

import os
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from ..gateways import Gateway
from .browser_user import BrowserUser, file
from .conftest import OpenPage


@pytest.fixture
def user(open_page: OpenPage, gateway: Gateway, root: Path) -> BrowserUser:
    """Signed in, with a few files and folders."""
    (root / "archive" / "old").mkdir(parents=True)
    (root / "inbox").mkdir()
    for name in ("alpha.txt", "beta.txt", "gamma.txt"):
        (root / name).write_text(f"this is {name}")
    return open_page(gateway, signed_in=True)


def picture(width: int, height: int) -> bytes:
    """A PNG of one colour."""
    rows = b"".join(b"\0" + b"\x20\x80\xf0" * width for _ in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_download_goes_through_a_ticket(user: BrowserUser, root: Path) -> None:
    content = os.urandom(3_000_000)
    (root / "largé.bin").write_bytes(content)
    user.press("r")
    with user.page.expect_download() as started:
        user.act("largé.bin", "Download")
    assert "ticket=" in started.value.url
    assert started.value.suggested_filename == "largé.bin"
    assert Path(started.value.path()).read_bytes() == content
    assert user.page.url.endswith("/")


def test_an_image_can_be_seen_in_its_actual_size(user: BrowserUser, root: Path) -> None:
    (root / "1 wide.png").write_bytes(picture(3000, 200))
    (root / "2 small.png").write_bytes(picture(40, 30))
    user.press("r")
    user.row("1 wide.png").locator(".open").click()
    image = user.dialog.locator(".preview-content img")
    zoom = user.dialog.get_by_role("button", name="Actual size")
    expect(image).to_be_visible()
    assert image.evaluate("img => img.clientWidth") < 1280
    user.press("z")
    expect(zoom).to_have_attribute("aria-pressed", "true")
    assert image.evaluate("img => [img.clientWidth, img.clientHeight]") == [3000, 200]
    user.check_access()
    image.click()
    expect(zoom).to_have_attribute("aria-pressed", "false")
    zoom.click()
    user.dialog.get_by_role("button", name="Next file").click()
    expect(user.dialog.get_by_role("img", name="Image 2 small.png")).to_be_visible()
    expect(zoom).to_have_attribute("aria-pressed", "false")
    user.dialog.get_by_role("button", name="Next file").click()
    expect(user.dialog.locator("pre")).to_be_visible()
    expect(zoom).to_be_hidden()


def test_the_question_before_deleting_shows_names_as_the_list_does(user: BrowserUser, root: Path) -> None:
    (root / "a   b.txt").touch()
    (root / "z.txt").touch()
    user.press("r")
    expect(user.row("z.txt")).to_be_visible()
    user.press("Control+a", "Delete")
    expect(user.dialog.locator("li").last).to_have_text("and 2 more")
    expect(user.dialog.locator("li").last).to_have_css("list-style-type", "none")
    name = user.dialog.locator("bdi", has_text="b.txt").first
    assert name.evaluate("name => name.innerText") == "a   b.txt"


def test_a_name_with_a_slash_is_refused_for_new_folders_and_renames(user: BrowserUser, root: Path) -> None:
    before = sorted(path.name for path in root.iterdir())
    user.page.get_by_role("button", name="New folder").click()
    user.dialog.get_by_label("Folder name").fill("a/b")
    user.press("Enter")
    expect(user.dialog.get_by_role("alert")).to_contain_text("This name isn't allowed.")
    user.press("Escape")
    user.act("alpha.txt", "Rename")
    user.dialog.get_by_label("New name").fill("archive/alpha.txt")
    user.press("Enter")
    expect(user.dialog.get_by_role("alert")).to_contain_text("This name isn't allowed.")
    user.press("Escape")
    assert sorted(path.name for path in root.iterdir()) == before
    user.expect_names("archive", "inbox", "alpha.txt", "beta.txt", "gamma.txt")


def test_new_folder(user: BrowserUser, root: Path) -> None:
    user.page.get_by_role("button", name="New folder").click()
    user.dialog.get_by_label("Folder name").fill("archive")
    user.press("Enter")
    expect(user.dialog.get_by_role("alert")).to_contain_text("This name is already taken")
    user.dialog.get_by_label("Folder name").fill("a\\b")
    user.press("Enter")
    expect(user.dialog.get_by_role("alert")).to_contain_text("This name isn't allowed.")
    user.dialog.get_by_label("Folder name").fill("brand new ✨")
    user.press("Enter")
    expect(user.dialog).to_have_count(0)
    expect(user.active).to_have_text("brand new ✨")
    assert (root / "brand new ✨").is_dir()
    user.expect_names("archive", "brand new ✨", "inbox", "alpha.txt", "beta.txt", "gamma.txt")


def test_rename(user: BrowserUser, root: Path) -> None:
    user.act("alpha.txt", "Rename")
    field = user.dialog.get_by_label("New name")
    assert field.evaluate("field => field.value.slice(field.selectionStart, field.selectionEnd)") == "alpha"
    user.expect_refusal(409)
    field.fill("beta.txt")
    user.press("Enter")
    expect(user.dialog.get_by_role("alert")).to_have_text("This name is already taken. Choose another one.")
    field.fill("zeta.txt")
    user.press("Enter")
    user.expect_names("archive", "inbox", "beta.txt", "gamma.txt", "zeta.txt")
    expect(user.active).to_have_text("zeta.txt")
    assert (root / "zeta.txt").read_text() == "this is alpha.txt"


def test_move_several_with_a_conflict(user: BrowserUser, root: Path) -> None:
    (root / "inbox" / "beta.txt").write_text("other")
    user.row("alpha.txt").click()
    user.row("beta.txt").click(modifiers=["Shift"])
    user.page.get_by_role("button", name="Move").click()
    here = user.dialog.get_by_role("button", name="Move here")
    expect(here).to_be_disabled()
    user.dialog.get_by_role("button", name="inbox").click()
    expect(here).to_be_enabled()
    user.expect_refusal(409)
    here.click()
    user.dialog.get_by_role("button", name="Keep both").click()
    user.expect_names("archive", "inbox", "gamma.txt")
    expect(user.page.locator(".notice")).to_contain_text("2 items moved to inbox")
    assert sorted(os.listdir(root / "inbox")) == ["alpha.txt", "beta (1).txt", "beta.txt"]


def test_copy_into_a_new_folder_and_beside_itself(user: BrowserUser, root: Path) -> None:
    user.act("archive", "Copy")
    expect(user.dialog.get_by_role("button", name="archive")).to_have_count(0)
    user.dialog.get_by_role("button", name="New folder").click()
    user.page.get_by_label("Folder name").fill("target")
    user.press("Enter")
    expect(user.dialog.locator(".crumb[aria-current]")).to_have_text("target")
    user.dialog.get_by_role("button", name="Copy here").click()
    expect(user.page.locator(".notice")).to_contain_text("1 item copied to target")
    assert (root / "target" / "archive" / "old").is_dir()
    user.act("gamma.txt", "Copy")
    user.dialog.get_by_role("button", name="Copy here").click()
    expect(user.row("gamma (1).txt")).to_be_visible()
    assert (root / "gamma (1).txt").read_text() == "this is gamma.txt"


def test_delete_asks_first(user: BrowserUser, root: Path) -> None:
    user.row("archive").click()
    user.row("beta.txt").click(modifiers=["Control"])
    user.press("Delete")
    expect(user.dialog.locator("h2")).to_have_text("Delete 2 items?")
    expect(user.dialog).to_contain_text("2 items will be deleted, including everything in the folders.")
    expect(user.dialog.get_by_role("button", name="Cancel")).to_be_focused()
    user.press("Enter")
    expect(user.dialog).to_have_count(0)
    assert (root / "archive").exists()
    user.press("Delete")
    user.dialog.get_by_role("button", name="Delete 2 items").click()
    user.expect_names("inbox", "alpha.txt", "gamma.txt")
    assert sorted(os.listdir(root)) == ["alpha.txt", "gamma.txt", "inbox"]


def test_failures_are_listed_with_their_sentences(user: BrowserUser, root: Path) -> None:
    (root / "alpha.txt").unlink()
    user.expect_refusal(404)
    user.row("alpha.txt").click()
    user.row("gamma.txt").click(modifiers=["Shift"])
    user.press("Delete")
    user.dialog.get_by_role("button", name="Delete 3 items").click()
    expect(user.dialog.locator("h2")).to_have_text("1 item couldn't be deleted")
    expect(user.dialog.locator("li")).to_contain_text("alpha.txt")
    expect(user.dialog.locator("li")).to_contain_text("It may have been moved or deleted.")


def test_copied_lines_work(user: BrowserUser, root: Path, tmp_path: Path) -> None:
    (root / "it's & more").mkdir()
    (root / "it's & more" / "found.txt").write_text("x")
    user.press("r")
    user.page.get_by_role("button", name="Automate").click()
    expect(user.dialog.locator("h2")).to_have_text("Use your files from a script")
    expect(user.dialog.locator("pre")).to_contain_text("/filesystem/?size=1000'")  # no pattern for zsh
    user.press("Escape")
    user.open("it's & more")
    user.page.get_by_role("button", name="Automate").click()
    expect(user.dialog.locator("h2")).to_have_text("Use it's & more from a script")
    code = user.dialog.locator("pre")
    user.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    lines = {}
    for kind in ("curl", "portico", "Python"):
        user.dialog.get_by_role("tab", name=kind).click()
        user.dialog.get_by_role("button", name="Copy to clipboard").click()
        expect(user.dialog.get_by_role("button", name="Copied")).to_be_visible()
        lines[kind] = code.text_content() or ""
        user.wait_until(lambda: user.page.evaluate("navigator.clipboard.readText()") == code.text_content())
    (tmp_path / "FILE").write_text("by curl")

    def run(*command: str) -> str:
        """The output; the password comes from standard input."""
        done = subprocess.run(
            command, input=user.password + "\n", capture_output=True, text=True, cwd=tmp_path, check=True
        )
        return done.stdout

    assert '"found.txt"' in run("bash", "-c", lines["curl"])
    assert (root / "it's & more" / "FILE").read_text() == "by curl"
    without_terminal = lines["Python"].replace("getpass.getpass()", "input()")
    assert "found.txt\t1\n" in run(sys.executable, "-c", without_terminal)
    assert "portico ls -l '/it'\\''s & more'" in lines["portico"]


def show_trash(user: BrowserUser) -> None:
    user.page.get_by_role("button", name="web").click()
    user.page.get_by_role("menuitem", name="Trash").press("Enter")
    expect(user.dialog.locator("h2")).to_have_text("Trash")
    expect(user.dialog.get_by_text("Loading")).to_have_count(0)


def test_a_replacement_is_undone(user: BrowserUser, root: Path) -> None:
    before = (root / "beta.txt").read_text()
    user.expect_refusal(409)
    user.choose_files(file("beta.txt", b"uploaded"))
    user.dialog.get_by_role("button", name="Replace").click()
    expect(user.page.locator(".notices")).to_contain_text("1 file replaced")
    assert (root / "beta.txt").read_text() == "uploaded"
    user.page.get_by_role("button", name="Undo replacing").click()
    expect(user.page.locator(".notices")).to_contain_text("1 item restored")
    assert (root / "beta.txt").read_text() == before
    # A file that was moved there goes back to where it was.
    (root / "inbox" / "beta.txt").write_text("in the inbox")
    user.row("beta.txt").click()
    user.act("beta.txt", "Move")
    user.dialog.get_by_role("button", name="inbox").click()
    user.expect_refusal(409)
    user.dialog.get_by_role("button", name="Move here").click()
    user.dialog.get_by_role("button", name="Replace").click()
    expect(user.row("beta.txt")).to_have_count(0)
    assert (root / "inbox" / "beta.txt").read_text() == before
    user.page.get_by_role("button", name="Undo replacing").click()
    expect(user.row("beta.txt")).to_be_visible()
    expect(user.page.locator(".notices").get_by_text("1 item restored")).to_have_count(2)
    assert (root / "beta.txt").read_text() == before
    assert (root / "inbox" / "beta.txt").read_text() == "in the inbox"


def test_the_question_says_if_nothing_is_kept(user: BrowserUser) -> None:
    question = user.page.get_by_text("This can't be undone.")
    user.act("beta.txt", "Delete")
    expect(user.dialog).to_be_visible()
    expect(question).to_have_count(0)
    user.page.route("**/*.js", without_trash)
    user.page.reload()
    user.settle()
    user.act("beta.txt", "Delete")
    expect(question).to_be_visible()
    user.dialog.get_by_role("button", name="Cancel").click()


def without_trash(route: Route) -> None:
    response = route.fetch()
    script = re.sub(r"keepsDeleted ?= ?true", "keepsDeleted = false", response.text())
    route.fulfill(response=response, body=script)


def test_undo_and_the_trash(user: BrowserUser, root: Path) -> None:
    show_trash(user)
    if (empty := user.dialog.get_by_role("button", name="Empty trash")).is_visible():  # of other tests
        empty.click()
        user.dialog.last.get_by_role("button", name="Empty trash").click()
    expect(user.dialog).to_contain_text("The trash is empty.")
    user.press("Escape")
    expect(user.dialog).to_have_count(0)
    user.row("archive").click()
    user.row("beta.txt").click(modifiers=["Control"])
    user.press("Delete")
    user.dialog.get_by_role("button", name="Delete 2 items").click()
    user.expect_names("inbox", "alpha.txt", "gamma.txt")
    user.page.get_by_role("button", name="Undo").click()
    user.expect_names("archive", "inbox", "alpha.txt", "beta.txt", "gamma.txt")
    assert (root / "beta.txt").read_text() == "this is beta.txt"

    # Later, in the trash; by the keyboard.
    user.row("beta.txt").click()
    user.press("Delete")
    user.dialog.get_by_role("button", name="Delete 1 item").click()
    expect(user.row("beta.txt")).to_have_count(0)
    (root / "beta.txt").write_text("another")
    show_trash(user)
    user.check_access()
    expect(user.dialog.locator("li").first).to_contain_text("/beta.txt")
    user.expect_refusal(409)
    user.dialog.get_by_role("button", name="Restore beta.txt").press("Enter")
    expect(user.dialog.locator("h2").last).to_have_text("Name already exists")
    user.page.get_by_role("button", name="Keep both").click()
    expect(user.dialog).to_contain_text("The trash is empty.")
    user.press("Escape")
    expect(user.row("beta (1).txt")).to_be_visible()
    assert (root / "beta (1).txt").read_text() == "this is beta.txt"
