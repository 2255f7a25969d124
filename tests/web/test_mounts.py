"""A tree of several mounts: what is offered in each folder, and where files can go."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from ..gateways import Gateway
from .browser_user import BrowserUser
from .conftest import PASSWORD, OpenPage

MOUNTS = {
    "member": {"/plans": "list,download", "/deep/drop": "upload"},
    "visitor": {"/plans": "list,download", "/deep/drop": "list,upload,delete"},
}


@pytest.fixture(scope="module", autouse=True)
def users(running: Gateway) -> Iterator[None]:
    for name, mounts in MOUNTS.items():
        running.command("user", "add", name, "--root", "/web", "--password-stdin", "--existing-folder", stdin=PASSWORD)
        for path, rights in mounts.items():
            given = ("--connection", "local", "--folder", f"/web{path}", "--rights", rights)
            running.command("mount", "add", name, path, *given, "--existing-folder")
    running.command("mount", "remove", "visitor", "/")
    yield
    for name in MOUNTS:
        running.command("user", "delete", name)


@pytest.fixture
def root(root: Path) -> Path:
    (root / "plans").mkdir()
    (root / "plans" / "plan.txt").write_text("plan")
    (root / "deep" / "drop").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    return root


def offered(user: BrowserUser, name: str) -> list[str]:
    user.row(name).get_by_role("button", name="Actions for").click()
    items: list[str] = user.page.get_by_role("menuitem").locator("> span").all_text_contents()
    user.press("Escape")
    return items


def test_each_folder_offers_what_it_allows(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    user = open_page(gateway)
    user.sign_in("member", PASSWORD)
    user.expect_names("deep", "plans", "a.txt")
    upload = user.page.get_by_role("button", name="Upload", exact=True)
    mark = user.page.get_by_role("img", name="Separate folder")
    expect(mark).to_have_count(1)
    expect(user.row("plans")).to_contain_text("plans")
    assert offered(user, "a.txt") == ["Preview", "Download", "Copy link", "Details", "Rename", "Move", "Copy", "Delete"]
    # What is kept in several places cannot be changed as a whole.
    assert offered(user, "deep") == offered(user, "plans") == ["Open", "Download", "Copy link", "Details"]
    user.check_access()
    user.open("plans")
    expect(upload).to_have_count(0)
    assert offered(user, "plan.txt") == ["Preview", "Download", "Copy link", "Details", "Copy"]
    # A copy can go elsewhere.
    user.act("plan.txt", "Copy")
    here = user.dialog.get_by_role("button", name="Copy here")
    expect(here).to_be_disabled()
    user.dialog.get_by_role("button", name="Parent folder").click()
    here.click()
    expect(user.page.locator(".notice")).to_contain_text("copied")
    assert (root / "plan.txt").read_text() == "plan"

    def with_storage(route: Route) -> None:
        body = route.fetch().json()
        body["mounts"] = [{**mount, "connection": f"of {mount['path']}"} for mount in body["mounts"]]
        route.fulfill(json=body)

    # Rights that change are noticed when the reader comes back, and so is that storage is shown.
    gateway.command("mount", "set", "member", "/plans", "--rights", "list,download,upload,delete")
    user.page.route("**/backend/session", with_storage)
    user.page.wait_for_timeout(1000)  # until the gateway's own cache has expired
    user.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(upload).to_be_visible()
    assert offered(user, "plan.txt")[-3:] == ["Move", "Copy", "Delete"]
    user.act("plan.txt", "Details")
    expect(user.dialog.locator(".facts-list > div", has_text="Kept in").locator("dd")).to_have_text("of /plans")


def test_a_user_without_a_root_sees_a_list_of_folders(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    user = open_page(gateway)
    user.sign_in("visitor", PASSWORD)
    user.expect_names("deep", "plans")
    expect(user.page.get_by_role("toolbar", name="Folder actions").get_by_role("button")).to_have_count(0)
    assert offered(user, "deep") == ["Open", "Copy link", "Details"]
    user.drop(root / "a.txt")
    expect(user.page.locator(".notice")).to_have_text(
        "You can't add files to this folder. You can add them to: /deep/drop"
    )
    user.open("deep")
    user.open("drop")
    user.drop(root / "a.txt")
    user.expect_names("a.txt")
    assert (root / "deep" / "drop" / "a.txt").read_text() == "a"
    assert offered(user, "a.txt") == ["Copy link", "Details", "Delete"]
