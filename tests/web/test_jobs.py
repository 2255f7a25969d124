"""Long changes: their progress, how they are cancelled, and that they are found again after a reload."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from ..gateways import Gateway
from .browser_user import BrowserUser
from .conftest import OpenPage

ID = "a" * 32


class SlowGateway:
    """Answers in place of the gateway: every copy becomes a job, which is as `job` says."""

    def __init__(self, page: Page) -> None:
        self.job: dict[str, Any] = {
            "id": ID,
            "kind": "copy",
            "state": "running",
            "source": "/large",
            "target": "/large (1)",
            "entriesDone": 0,
            "bytesDone": 0,
            "startedAt": "2026-11-14T09:30:00.000Z",
        }
        self.known = False
        self.cancelled = False
        page.route("**/filesystem/large?action=COPY*", self._begin)
        page.route("**/jobs", self._list)
        page.route(f"**/jobs/{ID}", self._show)

    def _begin(self, route: Route) -> None:
        assert route.request.headers["prefer"] == "respond-async"
        self.known = True
        route.fulfill(status=202, json=self.job)

    def _list(self, route: Route) -> None:
        route.fulfill(json={"content": [self.job] if self.known else []})

    def _show(self, route: Route) -> None:
        if route.request.method == "DELETE":
            if self.job["state"] == "running":
                self.cancelled = True
                self.job["state"] = "cancelled"
            else:
                self.known = False
        route.fulfill(json=self.job)


def begin(user: BrowserUser) -> None:
    user.act("large", "Copy")
    user.dialog.get_by_role("button", name="Copy here").click()


def test_progress_reload_and_cancel(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "large").mkdir()
    user = open_page(gateway)
    slow = SlowGateway(user.page)
    user.sign_in()
    begin(user)
    panel = user.page.get_by_role("region", name="Activity")
    bar = panel.get_by_role("progressbar", name="Progress of large")
    expect(panel).to_contain_text("Copying large")
    expect(bar).not_to_have_attribute("value", "0")
    slow.job |= {"entriesDone": 1200, "bytesDone": 2_500_000, "entriesTotal": 4800}
    expect(panel).to_contain_text("1,200 of 4,800 files · 2.5 MB")
    expect(bar).to_have_js_property("value", 0.25)
    user.check_access()
    user.page.reload()
    user.settle()
    expect(panel).to_contain_text("1,200 of 4,800 files")
    for width in (390, 1280):
        user.page.set_viewport_size({"width": width, "height": 800})
        box = panel.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    panel.get_by_role("button", name="Cancel large").focus()
    user.press("Enter")
    expect(panel).to_contain_text("Cancelled. The finished part is kept.")
    assert slow.cancelled
    user.check_access()
    user.page.reload()
    user.settle()
    expect(panel).to_contain_text("Cancelled")  # nobody has dismissed it
    panel.get_by_role("button", name="Dismiss large").click()
    expect(panel).to_be_hidden()
    user.page.reload()
    user.settle()
    expect(panel).to_be_hidden()


@pytest.mark.parametrize("state", ["done", "cancelled"])
def test_a_deletion_is_undone_after_a_reload(open_page: OpenPage, gateway: Gateway, root: Path, state: str) -> None:
    (root / "large").mkdir()
    user = open_page(gateway)
    slow = SlowGateway(user.page)
    slow.job |= {"kind": "delete"}
    user.page.route("**/filesystem/large?recursive=true", slow._begin)
    asked: list[str] = []

    def restore(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=201)

    user.page.route("**/trash/0123?*", restore)
    user.sign_in()
    user.act("large", "Delete")
    user.dialog.get_by_role("button", name="Delete 1 item").click()
    panel = user.page.get_by_role("region", name="Activity")
    expect(panel).to_contain_text("Deleting large")
    expect(panel.get_by_role("button", name="Undo")).to_have_count(0)
    user.page.reload()
    user.settle()
    slow.job |= {"state": state, "trashId": "0123"}
    panel.get_by_role("button", name="Undo large").click()
    expect(user.page.locator(".notice")).to_contain_text("1 item restored")
    expect(panel).to_be_hidden()
    assert [url.partition("?")[2] for url in asked] == [
        f"action=RESTORE&onConflict={'fail' if state == 'done' else 'replace'}"
    ]


def test_outcomes_are_reported_once(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "large").mkdir()
    user = open_page(gateway)
    slow = SlowGateway(user.page)
    user.sign_in()
    panel = user.page.get_by_role("region", name="Activity")
    begin(user)
    expect(panel).to_be_visible()
    slow.job |= {"state": "done", "result": "/large (7)"}
    expect(user.page.locator(".notice")).to_contain_text("1 item copied to Files · Saved as large (7)")
    expect(panel).to_be_hidden()
    assert not slow.known, "it was forgotten"
    slow.job |= {"state": "running"}
    begin(user)
    expect(panel).to_be_visible()
    problem = {"type": "", "title": "", "status": 503, "code": "unavailable", "instance": "/"}
    problem |= {"detail": "What was done is kept, so check and try again.", "requestId": "4b0f"}
    slow.job |= {"state": "failed", "problem": problem}
    expect(user.dialog).to_contain_text("1 item couldn't be copied")
    expect(user.dialog).to_contain_text("What was done is kept, so check and try again.")
    expect(panel).to_be_hidden()


def test_what_waits_behind_a_job(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "large").mkdir()
    (root / "small").mkdir()
    user = open_page(gateway)
    slow = SlowGateway(user.page)
    user.sign_in()
    for name in ("large", "small"):
        user.row(name).locator("input").check()
    user.press("c")
    user.dialog.get_by_role("button", name="Copy here").click()
    panel = user.page.get_by_role("region", name="Activity")
    expect(panel).to_be_visible()
    leave = "dispatchEvent(new Event('beforeunload', {cancelable: true}))"
    assert not user.page.evaluate(leave), "the page asks first"
    panel.get_by_role("button", name="Cancel large").click()
    expect(user.page.locator(".notice").last).to_contain_text("Cancelled")
    assert slow.cancelled
    expect(panel).to_be_hidden()
    assert user.page.evaluate(leave)
    assert not (root / "small (1)").exists(), "what waited is not begun"


def test_a_real_job(user: BrowserUser, root: Path) -> None:
    """In which the gateway is asked not to wait at all."""
    (root / "tree" / "deep").mkdir(parents=True)
    (root / "tree" / "deep" / "file").write_text("content")

    def impatient(route: Route) -> None:
        headers = {**route.request.headers, "prefer": "respond-async, wait=0"}
        route.continue_(headers=headers)

    user.page.route("**/filesystem/**", impatient)
    user.press("r")
    user.act("tree", "Copy")
    user.dialog.get_by_role("button", name="Copy here").click()
    user.expect_names("tree", "tree (1)")
    assert (root / "tree (1)" / "deep" / "file").read_text() == "content"
    user.act("tree", "Rename")
    user.dialog.get_by_label("New name").fill("renamed")
    user.press("Enter")
    expect(user.page.locator(".notice").last).to_contain_text("Renamed to renamed")
    user.expect_names("renamed", "tree (1)")
    user.act("renamed", "Delete")
    user.dialog.get_by_role("button", name="Delete 1 item").click()
    user.expect_names("tree (1)")
    expect(user.page.locator(".job-panel")).to_be_hidden()
    user.wait_until(lambda: jobs(user) == [])


def jobs(user: BrowserUser) -> list[Any]:
    token = json.loads(user.page.evaluate("sessionStorage.getItem('portico.session')"))["access"]
    with user.gateway.client() as client:
        answer = client.get("/backend/1.0.0/jobs", headers={"Authorization": f"Bearer {token}"})
    content: list[Any] = answer.json()["content"]
    return content
