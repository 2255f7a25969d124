"""What happened to files and folders, and how earlier content comes back."""

from pathlib import Path

from playwright.sync_api import expect

from ..gateways import Gateway
from .browser_user import file
from .conftest import OpenPage


def test_the_activity_of_a_file_and_of_its_folder(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "tale").mkdir()  # of which nothing has happened in other tests
    user = open_page(gateway, "/#/tale", signed_in=True)
    for content in (b"old", b"newer"):
        user.choose_files(file("a.txt", content))
        if content == b"newer":
            user.expect_refusal(409)
            user.dialog.locator("[data-choice=replace]").click()
        expect(user.upload_panel).to_contain_text("1 file uploaded")
        user.upload_panel.get_by_role("button", name="Close uploads").click()
    user.act("a.txt", "Activity")
    items = user.dialog.get_by_role("listitem")
    expect(items).to_have_count(2)
    expect(items.first).to_contain_text("/tale/a.txt")
    expect(items.first).to_contain_text("Replaced (5 B)")
    expect(items.first).to_contain_text("by you")
    expect(items.last).to_contain_text("Uploaded (3 B)")
    expect(items.last.get_by_role("button")).to_have_count(0)
    user.check_access()
    user.expect_refusal(409)
    items.first.get_by_role("button", name="Restore a.txt").click()
    user.dialog.last.locator("[data-choice=replace]").click()
    expect(items.first).to_contain_text("Restored")
    assert (root / "tale" / "a.txt").read_bytes() == b"old"
    user.press("Escape")
    expect(user.dialog).to_have_count(0)
    # Of the folder that is shown: by its details, or by a key.
    user.press("Escape", "Shift+H")
    expect(user.dialog.get_by_role("heading")).to_have_text("Activity of tale")
    expect(items).to_have_count(3)
    user.press("Escape")
    expect(user.dialog).to_have_count(0)
    user.press("Shift+I")
    user.dialog.get_by_role("button", name="Activity").click()
    expect(user.dialog.last.get_by_role("heading")).to_have_text("Activity of tale")
    expect(items.first).to_contain_text("by you")
