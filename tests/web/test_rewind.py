"""Undo everything since a time."""

from pathlib import Path

from playwright.sync_api import expect

from ..gateways import Gateway
from .browser_user import file
from .conftest import OpenPage


def test_own_changes_are_undone_after_a_look_at_the_plan(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "undo").mkdir()  # in which nothing has happened in other tests
    (root / "undo" / "a.txt").write_bytes(b"old")
    user = open_page(gateway, "/#/undo", signed_in=True)
    user.expect_refusal(409)
    user.choose_files(file("a.txt", b"changed"), file("new.txt"))
    user.dialog.locator("[data-choice=replace]").click()
    expect(user.upload_panel).to_contain_text("2 files uploaded")
    user.upload_panel.get_by_role("button", name="Close uploads").click()
    user.user_menu("Undo everything since")
    user.dialog.get_by_label("Only in undo").check()
    user.dialog.get_by_role("button", name="Show what would be undone").click()
    plan = user.dialog.locator(".plan")
    expect(plan).to_contain_text("1 file or folder is brought back")
    expect(plan).to_contain_text("1 file or folder goes to the trash")
    user.check_access()
    start = user.dialog.get_by_role("button", name="Undo now")
    expect(user.dialog.get_by_role("button", name="Cancel")).to_be_focused()
    user.dialog.get_by_label("Only in undo").uncheck()
    expect(start).to_be_hidden()  # that was another plan
    user.dialog.get_by_label("Only in undo").check()
    user.dialog.get_by_role("button", name="Show what would be undone").click()
    start.click()
    expect(user.page.locator(".notices")).to_contain_text("Your changes were undone")
    user.expect_names("a.txt")
    assert (root / "undo" / "a.txt").read_bytes() == b"old"
