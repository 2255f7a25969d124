"""Share links in a browser: made by their owner, used by guests in other windows."""

import json
import os
import re
from pathlib import Path

from playwright.sync_api import expect

from ..gateways import Gateway
from .browser_user import BrowserUser, file, zeros
from .conftest import PASSWORD, OpenPage
from .test_accessibility import PHONE
from .test_resumable import SIZE, Sent, begin


def shot(user: BrowserUser, name: str) -> None:
    """For the eyes, if wanted."""
    if folder := os.environ.get("PORTICO_SCREENSHOTS"):
        user.page.screenshot(path=f"{folder}/{name}.png")


def sharer(open_page: OpenPage, gateway: Gateway) -> BrowserUser:
    user = open_page(gateway)
    user.sign_in("sharer", PASSWORD)
    user.settle()
    return user


def test_a_file_request_by_keyboard_alone(open_page: OpenPage, gateway: Gateway, root: Path, tmp_path: Path) -> None:
    (root / "inbox").mkdir()
    owner = sharer(open_page, gateway)
    expect(owner.row("inbox")).to_be_visible()
    owner.press("Shift+F10", "ArrowDown")
    for _ in range(10):
        if owner.page.get_by_role("menuitem", name="Share…").evaluate("it => it === document.activeElement"):
            break
        owner.press("ArrowDown")
    owner.press("Enter")
    expect(owner.dialog).to_contain_text("Share inbox")
    owner.page.get_by_label("Guests can").focus()
    owner.press("s")  # Send files
    owner.press("Tab")
    owner.page.keyboard.type("Your documents")
    owner.check_access()
    shot(owner, "share-dialog")
    owner.press("Enter")
    address = owner.dialog.get_by_label("Link", exact=True)
    expect(address).to_be_visible()
    owner.check_access()
    shot(owner, "share-made")
    link = address.input_value().removeprefix(gateway.url)
    owner.press("Escape")

    guest = open_page(gateway, link)
    guest.expect_refusal(403)
    expect(guest.page.get_by_label("Your name")).to_be_focused()
    guest.check_access()
    shot(guest, "guest-name")
    guest.page.keyboard.type("Anna")
    guest.press("Enter")
    expect(guest.page.get_by_role("heading", name="Your documents")).to_be_visible()
    guest.check_access()
    shot(guest, "guest-request")
    for _ in range(12):
        guest.press("Tab")
        if guest.page.get_by_role("button", name="Choose files").evaluate("it => it === document.activeElement"):
            break
    expect(guest.page.get_by_role("button", name="Choose files")).to_be_focused()
    sent = [zeros(tmp_path, "report.txt", 5), zeros(tmp_path, "large.bin", 17 * 2**20)]
    guest.chooser_by_key("Enter").set_files(sent)
    expect(guest.page.locator(".sent")).to_contain_text("2 files uploaded")
    expect(guest.page.get_by_role("heading", name="Thank you")).to_be_visible()
    guest.check_access()
    shot(guest, "guest-thanks")
    with guest.page.expect_download() as saved:
        guest.page.get_by_role("button", name="Save receipts").click()
    receipts = json.loads(Path(saved.value.path()).read_text())["content"]
    assert sorted(each["name"] for each in receipts) == ["large.bin", "report.txt"]
    # The same name again does not tell that there is one already.
    guest.choose_files(file("report.txt", b"second"))
    expect(guest.page.locator(".sent")).to_contain_text("3 files uploaded")
    expect(guest.page.locator(".sent")).not_to_contain_text("(1)")
    assert sorted(each.name for each in (root / "inbox").iterdir()) == ["large.bin", "report (1).txt", "report.txt"]

    owner.user_menu("Shared links")
    owner.dialog.get_by_role("button", name="Activity").click()
    expect(owner.dialog.locator(".accesses")).to_contain_text("/inbox/report (1).txt")
    expect(owner.dialog.locator(".accesses")).to_contain_text("Anna")
    owner.check_access()
    shot(owner, "links")
    owner.dialog.get_by_role("button", name="New address").click()
    owner.page.get_by_role("button", name="New address").last.click()
    expect(owner.dialog.locator(".made-link input")).to_have_value(re.compile("/s/"))
    owner.dialog.get_by_role("button", name="End link").click()
    owner.page.get_by_role("button", name="End link").last.click()
    expect(owner.dialog.locator(".state")).to_have_text("Ended")
    guest.expect_refusal(401)
    guest.expect_refusal(404)
    guest.choose_files(file("late.txt"))
    expect(guest.page.get_by_role("heading", name="doesn't exist or has ended")).to_be_visible()
    guest.check_access()
    shot(guest, "guest-ended")


def test_a_shared_folder_on_a_phone(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "album/day 1").mkdir(parents=True)
    (root / "album/notes.txt").write_text("<script>alert(1)</script>")
    (root / "album/page.html").write_text("<script>document.title='run'</script>")
    owner = sharer(open_page, gateway)
    owner.act("album", "Share…")
    owner.page.get_by_label("Password").fill("correct horse")
    owner.page.get_by_label("Message").fill("From our trip")
    owner.page.get_by_role("button", name="Create link").click()
    link = owner.dialog.get_by_label("Link", exact=True).input_value().removeprefix(gateway.url)

    guest = open_page(gateway, link, **PHONE)
    guest.expect_refusal(403)
    guest.page.get_by_label("Password of the link").fill("wrong horse")
    guest.press("Enter")
    expect(guest.page.get_by_role("alert")).to_contain_text("password is wrong")
    guest.page.get_by_label("Password of the link").fill("correct horse")
    guest.press("Enter")
    guest.settle()
    guest.expect_names("day 1", "notes.txt", "page.html")
    expect(guest.page.locator(".guest-intro")).to_contain_text("From our trip")
    guest.check_access()
    shot(guest, "guest-folder-phone")
    guest.row("page.html").locator(".open").click()
    expect(guest.dialog).to_contain_text("document.title")
    guest.dialog.get_by_role("button", name="Close").click()
    with guest.page.expect_download() as saved:
        guest.act("notes.txt", "Download")
    assert Path(saved.value.path()).read_text() == "<script>alert(1)</script>"
    # A reload needs no password again; the address of the link is in no request but its own.
    guest.page.reload()
    guest.expect_names("day 1", "notes.txt", "page.html")
    assert guest.page.evaluate("document.referrer") == ""
    owner.page.set_viewport_size({"width": 390, "height": 844})
    owner.press("Escape")
    owner.act("page.html", "Share…") if "page.html" in owner.names else owner.act("album", "Share…")
    shot(owner, "share-dialog-phone")
    owner.press("Escape")
    (root / "album").rename(root / "gone")
    guest.expect_refusal(404)
    guest.page.evaluate("sessionStorage.clear()")
    guest.page.reload()
    guest.page.get_by_label("Password of the link").fill("correct horse")
    guest.press("Enter")
    expect(guest.page.get_by_role("heading", name="The shared file or folder no longer exists")).to_be_visible()
    shot(guest, "guest-gone-phone")


def test_a_shared_file(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "report.txt").write_text("figures")
    owner = sharer(open_page, gateway)
    owner.act("report.txt", "Share…")
    owner.page.get_by_label("Maximum downloads").fill("1")
    owner.page.get_by_role("button", name="Create link").click()
    link = owner.dialog.get_by_label("Link", exact=True).input_value().removeprefix(gateway.url)
    guest = open_page(gateway, link)
    expect(guest.page.get_by_role("heading", name="report.txt")).to_be_visible()
    guest.check_access()
    shot(guest, "guest-file")
    with guest.page.expect_download() as saved:
        guest.page.get_by_role("button", name="Download").click()
    assert Path(saved.value.path()).read_text() == "figures"
    guest.page.get_by_role("button", name="Preview").click()  # the same download
    expect(guest.dialog).to_contain_text("figures")
    other = open_page(gateway, link)
    other.expect_refusal(403)
    expect(other.page.get_by_role("heading", name="reached its limit")).to_be_visible()


def test_a_sender_who_comes_back_goes_on(open_page: OpenPage, gateway: Gateway, root: Path, tmp_path: Path) -> None:
    large = tmp_path / "film.mp4"
    large.write_bytes(os.urandom(SIZE))
    (root / "inbox").mkdir()
    owner = sharer(open_page, gateway)
    owner.act("inbox", "Share…")
    owner.page.get_by_label("Guests can").select_option("request")
    owner.page.get_by_role("button", name="Create link").click()
    link = owner.dialog.get_by_label("Link", exact=True).input_value().removeprefix(gateway.url)

    def opened(guest: BrowserUser, name: str) -> Sent:
        guest.expect_refusal(403)
        guest.page.get_by_label("Your name").fill(name)
        guest.press("Enter")
        expect(guest.page.get_by_role("button", name="Choose files")).to_be_visible()
        return Sent(guest)

    guest = open_page(gateway, link)
    begin(guest, large, opened(guest, "Anna"))
    guest.page.on("dialog", lambda dialog: dialog.accept())
    # A new tab has nothing of the former one but what the browser keeps.
    tabs = [BrowserUser(gateway, guest.page.context.new_page()) for _ in range(2)]
    guest.page.goto("about:blank")
    for tab, name in zip(tabs, ("Eve", "Anna"), strict=True):
        tab.page.goto(gateway.url + link)
        sent = opened(tab, name)
        tab.choose_files(large)
        expect(tab.page.locator(".sent")).to_contain_text("1 file uploaded")
        assert sent.count("POST") == (1 if name == "Eve" else 0)
        assert (0 in sent.offsets) == (name == "Eve")
    assert {each.read_bytes() == large.read_bytes() for each in (root / "inbox").iterdir()} == {True}
    assert tabs[1].page.evaluate("Object.keys(localStorage).filter((k) => /upload|sender/.test(k))") == []
