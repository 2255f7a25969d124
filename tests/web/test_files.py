"""Working with files: download, preview, new folder, rename, move, copy, delete, automate."""

import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ..gateways import Gateway
from .conftest import Visit
from .visitors import Visitor


@pytest.fixture
def visitor(visit: Visit, gateway: Gateway, root: Path) -> Visitor:
    """Signed in, with a few files and folders."""
    (root / "archive" / "old").mkdir(parents=True)
    (root / "inbox").mkdir()
    for name in ("alpha.txt", "beta.txt", "gamma.txt"):
        (root / name).write_text(f"this is {name}")
    visitor = visit(gateway, accept_downloads=True)
    visitor.sign_in()
    return visitor


def picture(width: int, height: int) -> bytes:
    """A PNG, all of one colour."""
    rows = b"".join(b"\0" + b"\x20\x80\xf0" * width for _ in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def test_download_goes_through_a_ticket(visitor: Visitor, root: Path) -> None:
    content = os.urandom(3_000_000)
    (root / "largé.bin").write_bytes(content)
    visitor.press("r")
    with visitor.page.expect_download() as started:
        visitor.act("largé.bin", "Download")
    assert "ticket=" in started.value.url
    assert started.value.suggested_filename == "largé.bin"
    assert Path(started.value.path()).read_bytes() == content
    assert visitor.page.url.endswith("/")


def test_several_files_are_downloaded(visitor: Visitor) -> None:
    visitor.row("alpha.txt").click()
    visitor.row("beta.txt").click(modifiers=["Control"])
    started: list[str] = []
    visitor.page.on("download", lambda download: started.append(download.suggested_filename))
    visitor.page.get_by_role("button", name="Download").click()
    expect(visitor.page.locator("#announcements")).to_have_text("2 downloads started")
    visitor.page.wait_for_timeout(300)
    assert sorted(started) == ["alpha.txt", "beta.txt"]


def test_preview_shows_and_never_runs(visitor: Visitor, root: Path) -> None:
    script = "<script>document.title = 'owned'</script>"
    (root / "1 page.html").write_text(script)
    (root / "2 drawing.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg">{script}</svg>')
    (root / "3 picture.png").write_bytes(picture(40, 30))
    (root / "4 broken.png").write_bytes(b"not a picture")
    (root / "5 long.log").write_text("line of a log\n" * 50_000)
    (root / "6 empty.txt").write_text("")
    (root / "7 paper.pdf").write_bytes(b"%PDF-1.7")
    visitor.press("r")
    visitor.row("1 page.html").locator(".open").click()
    stage = visitor.dialog.locator(".stage")
    expect(stage.locator("pre")).to_have_text(script)
    visitor.press("ArrowRight")
    expect(visitor.dialog.locator("h2")).to_have_text("2 drawing.svg")
    expect(stage.locator("pre")).to_contain_text(script)
    visitor.press("ArrowRight")
    expect(stage.get_by_role("img", name="Picture 3 picture.png")).to_be_visible()
    assert stage.locator("img").evaluate("img => [img.naturalWidth, img.naturalHeight]") == [40, 30]
    visitor.dialog.get_by_role("button", name="Next file").click()
    expect(stage).to_contain_text("This picture cannot be shown")
    visitor.dialog.get_by_role("button", name="Next file").click()
    expect(stage).to_contain_text("Only the first 262 kB is shown.")
    visitor.dialog.get_by_role("button", name="Next file").click()
    expect(stage).to_have_text("The file is empty.")
    visitor.dialog.get_by_role("button", name="Next file").click()
    expect(stage).to_contain_text("There is no preview for this kind of file")
    visitor.press("Escape")
    expect(visitor.active).to_have_text("7 paper.pdf")
    assert "owned" not in visitor.page.title()


def test_the_question_before_deleting_shows_names_as_the_list_does(visitor: Visitor, root: Path) -> None:
    (root / "a   b.txt").touch()
    (root / "z.txt").touch()
    visitor.press("r")
    expect(visitor.row("z.txt")).to_be_visible()
    visitor.press("Control+a", "Delete")
    expect(visitor.dialog.locator("li").last).to_have_text("and 2 more")
    expect(visitor.dialog.locator("li").last).to_have_css("list-style-type", "none")
    name = visitor.dialog.locator("bdi", has_text="b.txt").first
    assert name.evaluate("name => name.innerText") == "a   b.txt"


def test_a_name_with_a_slash_is_refused_for_new_folders_and_renames(visitor: Visitor, root: Path) -> None:
    before = sorted(path.name for path in root.iterdir())
    visitor.page.get_by_role("button", name="New folder").click()
    visitor.dialog.get_by_label("Name of the folder").fill("a/b")
    visitor.press("Enter")
    expect(visitor.dialog.get_by_role("alert")).to_contain_text("This name cannot be used.")
    visitor.press("Escape")
    visitor.act("alpha.txt", "Rename")
    visitor.dialog.get_by_label("New name").fill("archive/alpha.txt")
    visitor.press("Enter")
    expect(visitor.dialog.get_by_role("alert")).to_contain_text("This name cannot be used.")
    visitor.press("Escape")
    assert sorted(path.name for path in root.iterdir()) == before
    visitor.expect_names("archive", "inbox", "alpha.txt", "beta.txt", "gamma.txt")


def test_new_folder(visitor: Visitor, root: Path) -> None:
    visitor.page.get_by_role("button", name="New folder").click()
    visitor.dialog.get_by_label("Name of the folder").fill("archive")
    visitor.press("Enter")
    expect(visitor.dialog.get_by_role("alert")).to_contain_text("This name is already taken")
    visitor.dialog.get_by_label("Name of the folder").fill("a\\b")
    visitor.press("Enter")
    expect(visitor.dialog.get_by_role("alert")).to_contain_text("This name cannot be used.")
    visitor.dialog.get_by_label("Name of the folder").fill("brand new ✨")
    visitor.press("Enter")
    expect(visitor.dialog).to_have_count(0)
    expect(visitor.active).to_have_text("brand new ✨")
    assert (root / "brand new ✨").is_dir()
    visitor.expect_names("archive", "brand new ✨", "inbox", "alpha.txt", "beta.txt", "gamma.txt")


def test_rename(visitor: Visitor, root: Path) -> None:
    visitor.act("alpha.txt", "Rename")
    field = visitor.dialog.get_by_label("New name")
    assert field.evaluate("field => field.value.slice(field.selectionStart, field.selectionEnd)") == "alpha"
    visitor.expect_refusal(409)
    field.fill("beta.txt")
    visitor.press("Enter")
    expect(visitor.dialog.get_by_role("alert")).to_have_text(
        "This name is already taken. Choose another one."
    )
    field.fill("zeta.txt")
    visitor.press("Enter")
    visitor.expect_names("archive", "inbox", "beta.txt", "gamma.txt", "zeta.txt")
    expect(visitor.active).to_have_text("zeta.txt")
    assert (root / "zeta.txt").read_text() == "this is alpha.txt"


def test_move_several_with_a_conflict(visitor: Visitor, root: Path) -> None:
    (root / "inbox" / "beta.txt").write_text("other")
    visitor.row("alpha.txt").click()
    visitor.row("beta.txt").click(modifiers=["Shift"])
    visitor.page.get_by_role("button", name="Move").click()
    here = visitor.dialog.get_by_role("button", name="Move here")
    expect(here).to_be_disabled()
    visitor.dialog.get_by_role("button", name="inbox").click()
    expect(here).to_be_enabled()
    visitor.expect_refusal(409)
    here.click()
    visitor.dialog.get_by_role("button", name="Keep both").click()
    visitor.expect_names("archive", "inbox", "gamma.txt")
    expect(visitor.page.locator(".notice")).to_contain_text("2 items moved to inbox")
    assert sorted(os.listdir(root / "inbox")) == ["alpha.txt", "beta (1).txt", "beta.txt"]


def test_copy_into_a_new_folder_and_beside_itself(visitor: Visitor, root: Path) -> None:
    visitor.act("archive", "Copy")
    expect(visitor.dialog.get_by_role("button", name="archive")).to_have_count(0)
    visitor.dialog.get_by_role("button", name="New folder").click()
    visitor.page.get_by_label("Name of the folder").fill("target")
    visitor.press("Enter")
    expect(visitor.dialog.locator(".crumb[aria-current]")).to_have_text("target")
    visitor.dialog.get_by_role("button", name="Copy here").click()
    expect(visitor.page.locator(".notice")).to_contain_text("1 item copied to target")
    assert (root / "target" / "archive" / "old").is_dir()
    visitor.act("gamma.txt", "Copy")
    visitor.dialog.get_by_role("button", name="Copy here").click()
    expect(visitor.row("gamma (1).txt")).to_be_visible()
    assert (root / "gamma (1).txt").read_text() == "this is gamma.txt"


def test_delete_asks_first(visitor: Visitor, root: Path) -> None:
    visitor.row("archive").click()
    visitor.row("beta.txt").click(modifiers=["Control"])
    visitor.press("Delete")
    expect(visitor.dialog.locator("h2")).to_have_text("Delete 2 items?")
    expect(visitor.dialog).to_contain_text("2 items will be deleted, folders with everything in them.")
    expect(visitor.dialog.get_by_role("button", name="Cancel")).to_be_focused()
    visitor.press("Enter")
    expect(visitor.dialog).to_have_count(0)
    assert (root / "archive").exists()
    visitor.press("Delete")
    visitor.dialog.get_by_role("button", name="Delete 2 items").click()
    visitor.expect_names("inbox", "alpha.txt", "gamma.txt")
    assert sorted(os.listdir(root)) == ["alpha.txt", "gamma.txt", "inbox"]


def test_failures_are_listed_with_their_sentences(visitor: Visitor, root: Path) -> None:
    (root / "alpha.txt").unlink()
    visitor.expect_refusal(404)
    visitor.row("alpha.txt").click()
    visitor.row("gamma.txt").click(modifiers=["Shift"])
    visitor.press("Delete")
    visitor.dialog.get_by_role("button", name="Delete 3 items").click()
    expect(visitor.dialog.locator("h2")).to_have_text("1 item was not deleted")
    expect(visitor.dialog.locator("li")).to_contain_text("alpha.txt")
    expect(visitor.dialog.locator("li")).to_contain_text("Somebody may have moved or deleted it.")


def test_copied_lines_work(visitor: Visitor, root: Path, tmp_path: Path) -> None:
    (root / "it's & more").mkdir()
    (root / "it's & more" / "found.txt").write_text("x")
    visitor.press("r")
    visitor.open("it's & more")
    visitor.page.get_by_role("button", name="Automate").click()
    code = visitor.dialog.locator("pre")
    visitor.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    lines = {}
    for kind in ("curl", "portico", "Python"):
        visitor.dialog.get_by_role("tab", name=kind).click()
        visitor.dialog.get_by_role("button", name="Copy to clipboard").click()
        expect(visitor.dialog.get_by_role("button", name="Copied")).to_be_visible()
        lines[kind] = visitor.page.evaluate("navigator.clipboard.readText()")
        assert lines[kind] == code.text_content()
        visitor.page.wait_for_timeout(100)
    (tmp_path / "FILE").write_text("by curl")

    def run(*command: str) -> str:
        """Its output; the password comes from standard input."""
        done = subprocess.run(
            command, input=visitor.password + "\n", capture_output=True, text=True, cwd=tmp_path, check=True
        )
        return done.stdout

    assert '"found.txt"' in run("bash", "-c", lines["curl"])
    assert (root / "it's & more" / "FILE").read_text() == "by curl"
    without_terminal = lines["Python"].replace("getpass.getpass()", "input()")
    assert "found.txt\t1\n" in run(sys.executable, "-c", without_terminal)
    assert "portico ls -l '/it'\\''s & more'" in lines["portico"]
