"""Files in: chosen and dropped, many at once, with conflicts, failures and second thoughts."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Dialog, expect

from ..gateways import Gateway
from .conftest import PASSWORD, Visit
from .visitors import Visitor, file


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


def summary(visitor: Visitor, text: str) -> None:
    expect(visitor.tray.locator("h2")).to_have_text(text, timeout=30_000)


def tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_upload_button_takes_many_files(visitor: Visitor, root: Path) -> None:
    visitor.page.get_by_role("button", name="Upload").click()
    with visitor.page.expect_file_chooser() as opened:
        visitor.page.get_by_role("menuitem", name="Upload files").click()
    assert opened.value.is_multiple()
    opened.value.set_files([file("one.txt", b"1"), file("two.txt", b"22")])
    summary(visitor, "2 files uploaded")
    visitor.expect_names("one.txt", "two.txt")
    assert (root / "two.txt").read_bytes() == b"22"


def test_chosen_folder_keeps_its_structure(visitor: Visitor, root: Path, folder: Path) -> None:
    visitor.choose_folder(folder)
    summary(visitor, "3 files uploaded")
    visitor.expect_names("project")
    assert tree(root) == [
        "project",
        "project/read me.md",
        "project/src",
        "project/src/deep",
        "project/src/deep/größe.txt",
        "project/src/main.py",
    ]


def test_dropped_folders_and_files_keep_their_structure(visitor: Visitor, root: Path, folder: Path) -> None:
    loose = folder.parent / "loose.bin"
    loose.write_bytes(bytes(300_000))
    visitor.drop(folder, loose)
    summary(visitor, "5 files uploaded")
    assert "project/empty" in tree(root)
    assert "project/src/deep/größe.txt" in tree(root)
    assert (root / "loose.bin").read_bytes() == bytes(300_000)
    visitor.expect_names("project", "loose.bin")
    visitor.open("project")
    visitor.expect_names("empty", "src", "read me.md")


def test_three_hundred_files_and_one_fails(visitor: Visitor, root: Path) -> None:
    (root / "file 123.txt").mkdir()  # a file cannot take its place
    visitor.page.reload()
    visitor.settle()
    visitor.expect_refusal(409)
    visitor.choose_files(*(file(f"file {number:03}.txt", b"%d" % number) for number in range(300)))
    visitor.dialog.get_by_role("button", name="Replace").click()
    summary(visitor, "299 files uploaded, 1 failed")
    failed = visitor.tray.get_by_role("listitem").first
    expect(failed).to_contain_text("file 123.txt")
    expect(failed).to_contain_text("A folder has this name. Refresh the list or choose another name.")
    visitor.tray.get_by_role("button", name="Details").click()
    expect(visitor.dialog).to_contain_text("file 123.txt")
    visitor.press("Escape")
    expect(visitor.page.locator("#announcements")).to_have_text("299 files uploaded, 1 failed")
    assert len(list(root.iterdir())) == 300
    (root / "file 123.txt").rmdir()
    visitor.tray.get_by_role("button", name="Retry all that failed").click()
    summary(visitor, "300 files uploaded")
    assert (root / "file 123.txt").read_bytes() == b"123"
    expect(visitor.status).to_have_text("300 items")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("Replace", {"a.txt": b"new", "b.txt": b"new", "c.txt": b"new"}),
        (
            "Keep both",
            {"a.txt": b"old", "a (1).txt": b"new", "b.txt": b"old", "b (1).txt": b"new", "c.txt": b"new"},
        ),
        ("Skip", {"a.txt": b"old", "b.txt": b"old", "c.txt": b"new"}),
    ],
)
def test_conflicts_are_asked_once(
    visit: Visit, gateway: Gateway, root: Path, choice: str, expected: dict[str, bytes]
) -> None:
    for name in ("a.txt", "b.txt"):
        (root / name).write_bytes(b"old")
    visitor = visit(gateway)
    visitor.sign_in()
    visitor.choose_files(*(file(f"{name}.txt", b"new") for name in "abc"))
    visitor.dialog.get_by_label("Do the same").check()
    visitor.dialog.get_by_role("button", name=choice).click()
    expect(visitor.tray.locator("h2")).to_contain_text("uploaded")
    expect(visitor.status).to_have_text(f"{len(expected)} items")
    assert {path.name: path.read_bytes() for path in root.iterdir()} == expected
    assert sorted(visitor.names) == sorted(expected)


def test_the_name_that_a_file_got_is_shown(visitor: Visitor, root: Path) -> None:
    for name in ("scan.pdf", "scan (1).pdf"):
        (root / name).write_bytes(b"old")
    visitor.press("r")
    expect(visitor.row("scan (1).pdf")).to_be_visible()
    visitor.choose_files(file("scan.pdf", b"new"))
    visitor.dialog.get_by_role("button", name="Keep both").click()
    summary(visitor, "1 file uploaded")
    expect(visitor.tray.get_by_role("listitem")).to_contain_text("Stored as scan (2).pdf")
    visitor.expect_names("scan (1).pdf", "scan (2).pdf", "scan.pdf")
    assert (root / "scan (2).pdf").read_bytes() == b"new"


def test_conflict_that_only_the_gateway_sees(visitor: Visitor, root: Path) -> None:
    (root / "late.txt").write_bytes(b"old")  # after the page has looked
    visitor.expect_refusal(409)
    visitor.choose_files(file("late.txt", b"new"))
    expect(visitor.dialog).to_contain_text("There is already something called late.txt here.")
    expect(visitor.dialog.get_by_label("Do the same")).to_have_count(0)
    visitor.dialog.get_by_role("button", name="Replace").click()
    summary(visitor, "1 file uploaded")
    assert (root / "late.txt").read_bytes() == b"new"


def test_without_the_right_to_overwrite_nothing_is_replaced(
    visit: Visit, gateway: Gateway, root: Path
) -> None:
    (root / "a.txt").write_bytes(b"old")
    visitor = visit(gateway)
    visitor.sign_in("sender", PASSWORD)
    expect(visitor.row("a.txt")).to_be_visible()
    visitor.choose_files(file("a.txt", b"new"))
    expect(visitor.dialog.get_by_role("button", name="Keep both")).to_be_visible()
    expect(visitor.dialog.get_by_role("button", name="Replace")).to_have_count(0)
    visitor.press("Escape")
    summary(visitor, "0 files uploaded, 1 skipped")
    assert (root / "a.txt").read_bytes() == b"old"


def test_progress_cancel_retry_and_leaving(visitor: Visitor, root: Path) -> None:
    visitor.slow_down(500_000)
    visitor.choose_files(*(file(f"{number}.bin", bytes(600_000)) for number in range(3)))
    tray = visitor.tray
    expect(tray.locator("h2")).to_have_text("Uploading: 0 of 3 done")
    expect(tray.locator(".hint")).to_have_text(re.compile(r"\d+% · [\d.]+ [kM]B/s · \d+ \w+ left"))
    assert 0 < float(tray.locator("> progress").get_attribute("value") or 0) < 1
    asked: list[str] = []

    def stay(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.dismiss()

    visitor.page.once("dialog", stay)
    visitor.page.locator("body").click(position={"x": 640, "y": 20})
    visitor.page.close(run_before_unload=True)
    expect(tray).to_be_visible()
    tray.get_by_role("button", name="Cancel 1.bin").click()
    tray.get_by_role("button", name="Cancel all").click()
    assert asked == ["beforeunload"]
    expect(tray.locator("h2")).to_contain_text("cancelled")
    assert not (root / "1.bin").exists()
    visitor.slow_down(-1)
    tray.get_by_role("button", name="Retry 1.bin").click()
    expect(tray.locator("h2")).to_contain_text("1 file uploaded, 2 cancelled")
    assert (root / "1.bin").stat().st_size == 600_000
    tray.get_by_role("button", name="Close the list").click()
    expect(tray).to_be_hidden()


def test_lost_connection_fails_and_can_be_retried(visitor: Visitor, root: Path) -> None:
    visitor.expect_refusal("net::ERR")
    visitor.page.context.set_offline(True)
    visitor.choose_files(file("a.txt", b"a"))
    summary(visitor, "0 files uploaded, 1 failed")
    expect(visitor.tray).to_contain_text("The gateway cannot be reached")
    visitor.page.context.set_offline(False)
    visitor.tray.get_by_role("button", name="Retry a.txt").click()
    summary(visitor, "1 file uploaded")
    visitor.expect_names("a.txt")


def test_upload_into_a_folder_that_is_not_loaded(
    visit: Visit, gateway: Gateway, root: Path, folder: Path
) -> None:
    """A second drop of the same folder meets itself: asked once, below folders that were never opened."""
    visitor = visit(gateway)
    visitor.sign_in()
    visitor.choose_folder(folder)
    summary(visitor, "3 files uploaded")
    visitor.choose_folder(folder)
    visitor.dialog.get_by_label("Do the same").check()
    visitor.dialog.get_by_role("button", name="Skip").click()
    summary(visitor, "0 files uploaded, 3 skipped")
