"""Uploads: picked and dropped files, many at once, conflicts, failures, cancelling."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Dialog, expect

from ..gateways import Gateway
from .browser_user import BrowserUser, file
from .conftest import PASSWORD, OpenPage


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tree with files on two levels and an empty folder."""
    top = tmp_path / "project"
    (top / "src" / "deep").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "read me.md").write_text("# hello")
    (top / "src" / "main.py").write_text("print()")
    (top / "src" / "deep" / "größe.txt").write_text("ß")
    return top


def summary(user: BrowserUser, text: str) -> None:
    expect(user.upload_panel.locator("h2")).to_have_text(text)


def tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_upload_button_takes_many_files(user: BrowserUser, root: Path) -> None:
    user.page.get_by_role("button", name="Upload").click()
    with user.page.expect_file_chooser() as opened:
        user.page.get_by_role("menuitem", name="Upload files").click()
    assert opened.value.is_multiple()
    opened.value.set_files([file("one.txt", b"1"), file("two.txt", b"22")])
    summary(user, "2 files uploaded")
    user.expect_names("one.txt", "two.txt")
    assert (root / "two.txt").read_bytes() == b"22"


def test_chosen_folder_keeps_its_structure(user: BrowserUser, root: Path, folder: Path) -> None:
    user.choose_folder(folder)
    summary(user, "3 files uploaded")
    user.expect_names("project")
    assert tree(root) == [
        "project",
        "project/read me.md",
        "project/src",
        "project/src/deep",
        "project/src/deep/größe.txt",
        "project/src/main.py",
    ]


def test_dropped_folders_and_files_keep_their_structure(user: BrowserUser, root: Path, folder: Path) -> None:
    loose = folder.parent / "loose.bin"
    loose.write_bytes(bytes(300_000))
    user.drop(folder, loose)
    summary(user, "5 files uploaded")
    assert "project/empty" in tree(root)
    assert "project/src/deep/größe.txt" in tree(root)
    assert (root / "loose.bin").read_bytes() == bytes(300_000)
    user.expect_names("project", "loose.bin")
    user.open("project")
    user.expect_names("empty", "src", "read me.md")


def test_three_hundred_files_and_one_fails(user: BrowserUser, root: Path) -> None:
    (root / "file 123.txt").mkdir()  # a file cannot take its place
    user.page.reload()
    user.settle()
    user.expect_refusal(409)
    user.choose_files(*(file(f"file {number:03}.txt", b"%d" % number) for number in range(300)))
    user.dialog.get_by_role("button", name="Replace").click()
    summary(user, "299 files uploaded, 1 failed")
    failed = user.upload_panel.get_by_role("listitem").first
    expect(failed).to_contain_text("file 123.txt")
    expect(failed).to_contain_text("A folder with this name already exists. Refresh the list or choose another name.")
    user.upload_panel.get_by_role("button", name="Details").click()
    expect(user.dialog).to_contain_text("file 123.txt")
    user.press("Escape")
    expect(user.page.locator("#announcements")).to_have_text("299 files uploaded, 1 failed")
    assert len(list(root.iterdir())) == 300
    (root / "file 123.txt").rmdir()
    user.upload_panel.get_by_role("button", name="Retry failed uploads").click()
    summary(user, "300 files uploaded")
    assert (root / "file 123.txt").read_bytes() == b"123"
    expect(user.status).to_have_text("300 items")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("Replace", {"a.txt": b"new", "b.txt": b"new", "c.txt": b"new"}),
        ("Keep both", {"a.txt": b"old", "a (1).txt": b"new", "b.txt": b"old", "b (1).txt": b"new", "c.txt": b"new"}),
        ("Skip", {"a.txt": b"old", "b.txt": b"old", "c.txt": b"new"}),
    ],
)
def test_conflicts_are_asked_once(
    open_page: OpenPage, gateway: Gateway, root: Path, choice: str, expected: dict[str, bytes]
) -> None:
    for name in ("a.txt", "b.txt"):
        (root / name).write_bytes(b"old")
    user = open_page(gateway, signed_in=True)
    user.choose_files(*(file(f"{name}.txt", b"new") for name in "abc"))
    user.dialog.get_by_label("Do this for all").check()
    user.dialog.get_by_role("button", name=choice).click()
    expect(user.upload_panel.locator("h2")).to_contain_text("uploaded")
    expect(user.status).to_have_text(f"{len(expected)} items")
    assert {path.name: path.read_bytes() for path in root.iterdir()} == expected
    assert sorted(user.names) == sorted(expected)


def test_the_name_that_a_file_got_is_shown(user: BrowserUser, root: Path) -> None:
    for name in ("scan.pdf", "scan (1).pdf"):
        (root / name).write_bytes(b"old")
    user.press("r")
    expect(user.row("scan (1).pdf")).to_be_visible()
    user.choose_files(file("scan.pdf", b"new"))
    user.dialog.get_by_role("button", name="Keep both").click()
    summary(user, "1 file uploaded")
    expect(user.upload_panel.get_by_role("listitem")).to_contain_text("Saved as scan (2).pdf")
    user.expect_names("scan (1).pdf", "scan (2).pdf", "scan.pdf")
    assert (root / "scan (2).pdf").read_bytes() == b"new"


def test_conflict_that_only_the_gateway_sees(user: BrowserUser, root: Path) -> None:
    (root / "late.txt").write_bytes(b"old")  # after the page has looked
    user.expect_refusal(409)
    user.choose_files(file("late.txt", b"new"))
    expect(user.dialog).to_contain_text("late.txt already exists in this folder.")
    expect(user.dialog.get_by_label("Do this for all")).to_have_count(0)
    user.dialog.get_by_role("button", name="Replace").click()
    summary(user, "1 file uploaded")
    assert (root / "late.txt").read_bytes() == b"new"


def test_without_the_right_to_overwrite_nothing_is_replaced(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "a.txt").write_bytes(b"old")
    user = open_page(gateway)
    user.sign_in("sender", PASSWORD)
    expect(user.row("a.txt")).to_be_visible()
    user.choose_files(file("a.txt", b"new"))
    expect(user.dialog.get_by_role("button", name="Keep both")).to_be_visible()
    expect(user.dialog.get_by_role("button", name="Replace")).to_have_count(0)
    user.press("Escape")
    summary(user, "0 files uploaded, 1 skipped")
    assert (root / "a.txt").read_bytes() == b"old"


def test_progress_cancel_retry_and_leaving(user: BrowserUser, root: Path) -> None:
    user.expect_refusal(404)  # a retry looks whether the file was stored after all
    user.slow_down(2_000_000)
    user.choose_files(*(file(f"{number}.bin", bytes(2_500_000)) for number in range(3)))
    upload_panel = user.upload_panel
    expect(upload_panel.locator("h2")).to_have_text("Uploading: 0 of 3 done")
    expect(upload_panel.locator(".hint")).to_have_text(re.compile(r"\d+% · [\d.]+ [kM]B/s · \d+ \w+ left"))
    assert 0 < float(upload_panel.locator("> progress").get_attribute("value") or 0) < 1
    asked: list[str] = []

    def stay(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.dismiss()

    user.page.once("dialog", stay)
    user.page.locator("body").click(position={"x": 640, "y": 20})
    user.page.close(run_before_unload=True)
    expect(upload_panel).to_be_visible()
    upload_panel.get_by_role("button", name="Cancel 1.bin").click()
    upload_panel.get_by_role("button", name="Cancel all").click()
    assert asked == ["beforeunload"]
    expect(upload_panel.locator("h2")).to_contain_text("cancelled")
    assert not (root / "1.bin").exists()
    user.slow_down(-1)
    upload_panel.get_by_role("button", name="Retry 1.bin").click()
    expect(upload_panel.locator("h2")).to_contain_text("1 file uploaded, 2 cancelled")
    assert (root / "1.bin").stat().st_size == 2_500_000
    upload_panel.get_by_role("button", name="Close uploads").click()
    expect(upload_panel).to_be_hidden()


def test_lost_connection_is_waited_for(user: BrowserUser, root: Path) -> None:
    user.expect_refusal("net::ERR")
    user.page.context.set_offline(True)
    user.choose_files(file("a.txt", b"a"))
    expect(user.upload_panel.get_by_role("listitem")).to_contain_text("Waiting for the connection…")
    expect(user.upload_panel.locator(".hint")).to_have_text("0% · Waiting for the connection…")
    expect(user.page.locator("#announcements")).to_have_text("Waiting for the connection…")
    user.page.context.set_offline(False)
    summary(user, "1 file uploaded")
    user.expect_names("a.txt")


def test_upload_into_a_folder_that_is_not_loaded(
    open_page: OpenPage, gateway: Gateway, root: Path, folder: Path
) -> None:
    """Uploading the same folder twice asks once, also about files in folders that were never opened."""
    user = open_page(gateway, signed_in=True)
    user.choose_folder(folder)
    summary(user, "3 files uploaded")
    user.choose_folder(folder)
    user.dialog.get_by_label("Do this for all").check()
    user.dialog.get_by_role("button", name="Skip").click()
    summary(user, "0 files uploaded, 3 skipped")
