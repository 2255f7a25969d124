"""Large files are sent in parts and survive whatever happens to the line, the session and the tab."""

import copy
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import Dialog, Request, Route, expect

from portico import web

from ..gateways import Gateway
from ..servers.line import Line
from .browser_user import BrowserUser
from .conftest import OpenPage
from .test_upload import summary

MB = 2**20
SIZE = 20 * MB
"""Three parts."""
MODIFIED = 1_700_000_000
PART_SIZE = Path(web.__file__).parent / "js" / "uploads" / "part-size.js"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "film.mp4"
    path.write_bytes(os.urandom(SIZE))
    os.utime(path, (MODIFIED, MODIFIED))
    return path


@pytest.fixture
def line(gateway: Gateway) -> Iterator[Line]:
    with Line(gateway.port) as line:
        yield line


@pytest.fixture
def user(open_page: OpenPage, gateway: Gateway, line: Line) -> BrowserUser:
    """The user `web`, signed in, over the line."""
    distant = copy.copy(gateway)
    distant.url = line.url
    return open_page(distant, signed_in=True)


class Sent:
    """The requests that a page makes from now on."""

    def __init__(self, user: BrowserUser) -> None:
        self.requests: list[Request] = []
        user.page.on("request", lambda request: self.requests.append(request))

    def count(self, method: str, part: str = "/uploads") -> int:
        return sum(request.method == method and part in request.url for request in self.requests)

    @property
    def offsets(self) -> list[int]:
        return [int(request.headers["upload-offset"]) for request in self.requests if request.method == "PATCH"]


def begin(user: BrowserUser, large: Path, sent: Sent) -> None:
    """Choose the file, and wait until its second part is on its way, slowly."""
    user.slow_down(8 * MB)
    user.choose_files(large)
    user.wait_until(lambda: len(sent.offsets) > 1)


def expect_stored(root: Path, large: Path) -> None:
    stored = root / large.name
    assert stored.read_bytes() == large.read_bytes()
    assert stored.stat().st_mtime == MODIFIED


def kept_uploads(user: BrowserUser) -> list[dict[str, str]]:
    """What the browser remembers of uploads."""
    found: list[str] = user.page.evaluate(
        "() => Object.keys(localStorage).filter((k) => k.startsWith('portico.upload:')).map((k) => localStorage[k])"
    )
    return [json.loads(text) for text in found]


def test_large_file_is_sent_in_parts(user: BrowserUser, root: Path, large: Path) -> None:
    sent = Sent(user)
    user.choose_files(large)
    summary(user, "1 file uploaded")
    assert sent.offsets == [0, 8 * MB, 16 * MB]
    assert sent.count("POST") == 1
    assert kept_uploads(user) == []
    user.expect_names("film.mp4")
    expect_stored(root, large)


def test_line_that_is_cut_three_times(user: BrowserUser, line: Line, root: Path, large: Path) -> None:
    user.expect_refusal("net::ERR")
    user.expect_refusal(409)  # the browser itself may have sent a part again
    sent = Sent(user)
    line.cut_after(3 * MB, 5 * MB, 6 * MB)
    user.choose_files(large)
    summary(user, "1 file uploaded")
    assert line.cuts == 3
    assert sent.count("POST") == 1
    assert sent.offsets == sorted(sent.offsets)
    expect_stored(root, large)


@pytest.mark.thorough
def test_progress_does_not_jump_back_and_the_pause_is_shown(
    user: BrowserUser, line: Line, root: Path, large: Path
) -> None:
    user.expect_refusal("net::ERR")
    user.expect_refusal(409)
    line.cut_after(11 * MB, stay_down=True)
    user.choose_files(large)
    row = user.upload_panel.get_by_role("listitem")
    expect(row).to_contain_text("Waiting for the connection…")
    expect(user.upload_panel.locator(".hint")).to_have_text(re.compile(r"\d+% · Waiting for the connection…"))
    expect(user.page.locator("#announcements")).to_have_text("Waiting for the connection…")
    assert float(row.locator("progress").get_attribute("value") or 0) >= 8 / 20
    user.check_access()
    user.slow_down(4 * MB)
    line.up()
    expect(row).to_contain_text(re.compile(r"MB · Resumed at [45]\d%"))
    expect(user.page.locator("#announcements")).to_have_text("Uploads continue")
    user.slow_down(-1)
    summary(user, "1 file uploaded")
    expect_stored(root, large)


def test_line_that_falls_silent(user: BrowserUser, line: Line, root: Path, large: Path) -> None:
    user.expect_refusal(409)  # of the silent request, if it hears that another one has taken over
    user.page.clock.install()
    sent = Sent(user)
    begin(user, large, sent)
    line.silence()
    parts = len(sent.offsets)

    def asks_anew() -> int:
        # As often as it takes: what the browser still hands over to the system's buffers is progress, too.
        user.page.clock.fast_forward(61_000)
        user.page.clock.fast_forward(1_000)
        return sent.count("HEAD")

    user.wait_until(asks_anew)
    line.speak()
    user.slow_down(-1)
    user.page.clock.resume()
    summary(user, "1 file uploaded")
    assert len(sent.offsets) > parts
    expect_stored(root, large)


def test_the_same_file_goes_on_after_a_reload(user: BrowserUser, line: Line, root: Path, large: Path) -> None:
    user.expect_refusal("net::ERR")
    user.expect_refusal(409)
    line.cut_after(12 * MB, stay_down=True)
    user.choose_files(large)
    expect(user.upload_panel).to_contain_text("Waiting for the connection…")
    user.page.on("dialog", lambda dialog: dialog.accept())
    user.slow_down(1 * MB)
    line.up()
    user.page.reload()
    user.settle()
    sent = Sent(user)
    before = line.sent
    user.slow_down(4 * MB)
    user.choose_files(large)
    expect(user.upload_panel).to_contain_text(re.compile(r"Resumed at [4-6]\d%"))
    user.slow_down(-1)
    summary(user, "1 file uploaded")
    assert sent.count("POST") == 0
    assert line.sent - before < SIZE - 8 * MB + MB
    assert kept_uploads(user) == []
    expect_stored(root, large)


def test_file_that_was_stored_while_the_page_was_reloaded(user: BrowserUser, root: Path, large: Path) -> None:
    """The gateway still knows the upload: nothing is sent, and nobody is asked about the name."""
    user.choose_files(large)
    user.wait_until(lambda: kept_uploads(user))
    key = user.page.evaluate("() => Object.keys(localStorage).find((k) => k.startsWith('portico.upload:'))")
    kept = json.dumps(kept_uploads(user)[0])
    summary(user, "1 file uploaded")
    user.page.evaluate("([key, kept]) => localStorage.setItem(key, kept)", [key, kept])
    user.page.reload()
    user.settle()
    sent = Sent(user)
    user.choose_files(large)
    summary(user, "1 file uploaded")
    assert sent.count("PATCH") == sent.count("POST") == 0
    assert os.listdir(root) == ["film.mp4"]


def test_session_that_ends_meanwhile(user: BrowserUser, gateway: Gateway, root: Path, large: Path) -> None:
    user.expect_refusal(401)
    user.expect_refusal(400)
    sent = Sent(user)
    begin(user, large, sent)
    token = user.page.evaluate("() => JSON.parse(sessionStorage['portico.session']).access")
    httpx2.post(f"{gateway.url}/backend/logout", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    expect(user.page.get_by_text("Your session has ended. Sign in again to continue.")).to_be_visible()
    user.slow_down(-1)
    parts = len(sent.offsets)
    user.page.get_by_label("Password").fill(user.password)
    user.press("Enter")
    summary(user, "1 file uploaded")
    assert sent.count("POST") == 1
    assert min(sent.offsets[parts:]) >= 8 * MB
    expect_stored(root, large)


def test_signing_out_removes_the_upload(user: BrowserUser, gateway: Gateway, root: Path, large: Path) -> None:
    for refusal in (401, 404, 409, "net::ERR"):  # of a part that was on its way
        user.expect_refusal(refusal)
    begin(user, large, Sent(user))
    asked: list[str] = []

    def leave(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.accept()

    user.page.on("dialog", leave)
    user.user_menu("Sign out")
    expect(user.page.get_by_text("You're signed out.")).to_be_visible()
    assert asked == ["Uploads are still in progress. Cancel them and sign out?"]
    user.wait_until(lambda: not gateway.staged)
    assert kept_uploads(user) == []
    assert os.listdir(root) == []


def test_second_tab_takes_over(user: BrowserUser, root: Path, large: Path) -> None:
    user.expect_refusal(409)
    user.expect_refusal("net::ERR")
    parts = Sent(user)

    def slowly(route: Route) -> None:
        if route.request.method == "PATCH" and route.request.headers["upload-offset"] != "0":
            user.slow_down(MB // 100)  # it must not be done before the other tab has begun
        route.fallback()

    user.page.route("**/uploads/*", slowly, times=2)
    user.choose_files(large)
    user.wait_until(lambda: len(parts.offsets) > 1)
    other = BrowserUser(user.gateway, user.page.context.new_page())
    other.page.goto(user.gateway.url)
    other.sign_in()
    sent = Sent(other)
    other.expect_refusal(409)
    other.expect_refusal("net::ERR")
    other.choose_files(large)
    other.wait_until(lambda: sent.offsets)
    user.slow_down(-1)
    # The refusal may be lost with the connection on which the first tab still sends. Then that tab asks, and takes over in
    # turn: whichever ends the upload, the file is stored once.
    user.wait_until(lambda: any("1 file uploaded" in tab.upload_panel.inner_text() for tab in (user, other)))
    assert sent.count("POST") == 0
    assert all(offset >= 8 * MB for offset in sent.offsets)
    expect_stored(root, large)
    assert os.listdir(root) == ["film.mp4"]
    other.check_silence()


def test_cancelling_removes_the_upload(user: BrowserUser, gateway: Gateway, root: Path, large: Path) -> None:
    for refusal in (404, 409, "net::ERR"):  # of a part that was on its way
        user.expect_refusal(refusal)
    sent = Sent(user)
    begin(user, large, sent)
    assert gateway.staged
    user.upload_panel.get_by_role("button", name="Cancel film.mp4").click()
    summary(user, "0 files uploaded, 1 cancelled")
    user.wait_until(lambda: not gateway.staged)
    assert kept_uploads(user) == []
    user.slow_down(-1)
    user.upload_panel.get_by_role("button", name="Retry film.mp4").click()
    summary(user, "1 file uploaded")
    assert sent.count("POST") == 2
    expect_stored(root, large)


def test_upload_that_is_gone_begins_anew(
    user: BrowserUser, gateway: Gateway, line: Line, root: Path, large: Path
) -> None:
    user.expect_refusal("net::ERR")
    user.expect_refusal(404)
    sent = Sent(user)
    line.cut_after(11 * MB, stay_down=True)
    user.choose_files(large)
    expect(user.upload_panel).to_contain_text("Waiting for the connection…")
    (kept,) = kept_uploads(user)
    with gateway.signed_in() as client:
        answer = client.delete(f"/backend/1.0.0/uploads/{kept['id']}", headers={"Tus-Resumable": "1.0.0"})
        assert answer.status_code == 204
    line.up()
    summary(user, "1 file uploaded")
    assert sent.count("POST") == 2
    expect_stored(root, large)


def test_busy_gateway_is_asked_again(user: BrowserUser, root: Path, large: Path) -> None:
    user.expect_refusal(503)
    refusals = 2

    def answer(route: Route) -> None:
        nonlocal refusals
        if route.request.method != "PATCH" or not refusals:
            route.fallback()
            return
        refusals -= 1
        problem = {"code": "unavailable", "status": 503}
        route.fulfill(status=503, headers={"Retry-After": "1"}, body=json.dumps(problem))

    user.page.route("**/uploads/*", answer)
    user.choose_files(large)
    expect(user.upload_panel.get_by_role("listitem")).to_contain_text("Trying again in a moment…")
    summary(user, "1 file uploaded")
    assert not refusals
    expect_stored(root, large)


def test_proxy_that_takes_small_requests_only(user: BrowserUser, root: Path, large: Path) -> None:
    user.expect_refusal(413)

    def answer(route: Route) -> None:
        if int(route.request.headers.get("content-length", "0")) > 2 * MB:
            route.fulfill(status=413, body="<html>Request Entity Too Large</html>")
        else:
            route.fallback()

    sent = Sent(user)
    user.page.route("**/uploads/*", answer)
    user.choose_files(large)
    summary(user, "1 file uploaded")
    assert sent.count("POST") == 1
    expect_stored(root, large)


@pytest.mark.thorough
def test_parts_grow_again_after_failures(user: BrowserUser, root: Path, large: Path) -> None:
    user.expect_refusal("net::ERR")
    failures = 2

    def answer(route: Route) -> None:
        nonlocal failures
        if route.request.method == "PATCH" and failures:
            failures -= 1
            route.abort("connectionreset")
        else:
            route.fallback()

    sent = Sent(user)
    user.page.route("**/uploads/*", answer)
    user.choose_files(large)
    summary(user, "1 file uploaded")
    assert sent.offsets == [0, 0, 0, 4 * MB, 12 * MB]
    expect_stored(root, large)


def test_part_size(user: BrowserUser) -> None:
    """F: a failure, T: a refusal because of the size, S: a success. The size after each of them, in MiB."""
    found: dict[str, list[float]] = user.page.evaluate(
        """(histories) => {
            PART_SIZE
            return Object.fromEntries(histories.map((history) => {
                const part = new PartSize();
                return [history, [...history].map((step) => {
                    if (step === "S") part.succeeded();
                    else part.failed({ tooLarge: step === "T" });
                    return part.bytes / 2 ** 20;
                })];
            }));
        }""".replace("PART_SIZE", PART_SIZE.read_text().replace("export ", "")),
        ["SS", "FSFS", "FFFFFSSSSS", "TTSS", "FFFSFFSS"],
    )
    assert found == {
        "SS": [8, 8],
        "FSFS": [8, 8, 8, 8],  # once may be chance
        "FFFFFSSSSS": [8, 4, 2, 1, 1, 2, 4, 8, 8, 8],
        "TTSS": [4, 2, 2, 2],
        "FFFSFFSS": [8, 4, 2, 4, 4, 2, 2, 2],  # a proxy that closes the connection: 4 MiB are too much
    }


@pytest.mark.thorough
def test_question_that_another_request_interrupts(user: BrowserUser, root: Path, large: Path) -> None:
    """A 409 that is no name conflict: nobody is asked, and the upload goes on."""
    user.expect_refusal("net::ERR")
    user.expect_refusal(409)
    refused: list[str] = []

    def answer(route: Route) -> None:
        method = route.request.method
        if method == "PATCH" and not refused:
            route.abort("connectionreset")
        elif method == "HEAD" and not refused:
            refused.append(method)
            route.fulfill(status=409, headers={"X-Error-Code": "upload-taken-over"})
        else:
            route.fallback()

    user.page.route("**/uploads/*", answer)
    user.choose_files(large)
    summary(user, "1 file uploaded")
    assert refused
    expect_stored(root, large)


def test_file_that_changes_meanwhile(user: BrowserUser, gateway: Gateway, root: Path, large: Path) -> None:
    user.expect_refusal("net::ERR")
    begin(user, large, Sent(user))
    large.write_bytes(b"something else")
    summary(user, "0 files uploaded, 1 failed")
    expect(user.upload_panel).to_contain_text("The file was changed, moved or deleted after you chose it.")
    user.wait_until(lambda: not gateway.staged)
    assert os.listdir(root) == []


@pytest.mark.thorough
def test_conflict_that_the_question_meets(user: BrowserUser, gateway: Gateway, root: Path, large: Path) -> None:
    """The answer to the last part is lost, and the next request reports the conflict."""
    user.expect_refusal("net::ERR")
    user.expect_refusal(409)

    def answer(route: Route) -> None:
        if route.request.headers.get("upload-offset") != str(16 * MB):
            route.fallback()
            return
        (root / "film.mp4").write_bytes(b"of somebody else")
        headers = {
            "Tus-Resumable": "1.0.0",
            "Upload-Offset": str(16 * MB),
            "Content-Type": "application/offset+octet-stream",
        }
        with gateway.signed_in() as client:
            rest = large.read_bytes()[16 * MB :]
            assert client.patch(urlsplit(route.request.url).path, headers=headers, content=rest).status_code == 409
        route.abort("connectionreset")

    user.page.route("**/uploads/*", answer, times=3)
    user.choose_files(large)
    user.dialog.get_by_role("button", name="Replace").click()
    summary(user, "1 file uploaded")
    expect_stored(root, large)


def test_conflict_at_the_end_of_a_large_file(user: BrowserUser, root: Path, large: Path) -> None:
    """Somebody else stores the name while the file is sent."""
    user.expect_refusal(409)
    begin(user, large, Sent(user))
    (root / "film.mp4").write_bytes(b"of somebody else")
    user.slow_down(-1)
    user.dialog.get_by_role("button", name="Keep both").click()
    summary(user, "1 file uploaded")
    expect(user.upload_panel.get_by_role("listitem")).to_contain_text("Saved as film (1).mp4")
    assert (root / "film.mp4").read_bytes() == b"of somebody else"
    assert (root / "film (1).mp4").read_bytes() == large.read_bytes()
