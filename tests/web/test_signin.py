"""Signing in and out, and staying signed in."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect

from ..gateways import Gateway, wait_until
from .browser_user import BrowserUser
from .conftest import OpenPage

TOO_LARGE_TO_SHARE = 2_500_000
"""Two files of this size are not sent in one request."""


def is_refused(gateway: Gateway, token: str) -> bool:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.get(f"{gateway.url}/backend/session", headers=headers, trust_env=False).status_code == 401


def test_sign_in_by_keyboard_and_sign_out(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "hello.txt").write_text("hello")
    user = open_page(gateway)
    expect(user.page.get_by_label("Username")).to_be_focused()
    user.page.keyboard.type("web")
    user.press("Tab")
    user.page.keyboard.type(user.password)
    user.press("Enter")
    expect(user.row("hello.txt")).to_be_visible()
    token = user.page.evaluate("JSON.parse(sessionStorage['portico.session']).access")
    user.user_menu("Sign out")
    expect(user.page.get_by_text("You're signed out.")).to_be_visible()
    assert user.page.evaluate("sessionStorage.length") == 0

    wait_until(lambda: is_refused(gateway, token), "the token is revoked")


def test_fields_are_what_password_managers_look_for(open_page: OpenPage, gateway: Gateway) -> None:
    page = open_page(gateway).page
    expect(page.get_by_label("Username")).to_have_attribute("autocomplete", "username")
    expect(page.get_by_label("Password")).to_have_attribute("autocomplete", "current-password")
    expect(page.get_by_label("Password")).to_have_attribute("type", "password")


def test_a_wrong_password_is_reported(open_page: OpenPage, gateway: Gateway) -> None:
    user = open_page(gateway)
    user.expect_refusal(400)
    user.sign_in(password="wrong password")
    expect(user.page.get_by_role("alert")).to_contain_text("Incorrect username or password")
    expect(user.page.get_by_label("Password")).to_be_focused()
    user.sign_in()


def test_throttled_sign_in_counts_the_wait_of_that_name_down(open_page: OpenPage, gateway: Gateway) -> None:
    user = open_page(gateway)
    user.expect_refusal(400)
    user.expect_refusal(429)
    alert = user.page.get_by_role("alert")
    for _ in range(10):
        user.sign_in("somebody", "wrong password")
        expect(alert).to_contain_text("Incorrect")
    user.sign_in("somebody", "wrong password")
    expect(alert).to_contain_text(re.compile(r"Too many sign-in attempts.*Try again in 1\d min"))
    submit = user.page.get_by_role("button", name="Sign in")
    expect(submit).to_be_disabled()
    # The wait applies to one name: another user can sign in with the same browser.
    user.page.get_by_label("Username").fill("somebody else")
    expect(submit).to_be_enabled()
    expect(user.page.locator("#sign-in-error")).to_be_empty()
    user.page.get_by_label("Username").fill("SOMEBODY ")
    expect(submit).to_be_disabled()
    expect(alert).to_contain_text("Try again in")
    user.sign_in()


def test_an_unreachable_gateway_is_reported(open_page: OpenPage, gateway: Gateway) -> None:
    user = open_page(gateway)
    user.expect_refusal("net::ERR")
    expect(user.page.get_by_label("Username")).to_be_visible()
    user.page.context.set_offline(True)
    user.sign_in(password="whatever it is")
    expect(user.page.get_by_role("alert")).to_contain_text("Can't reach the gateway")
    user.page.context.set_offline(False)
    user.sign_in()


def test_reload_keeps_place_and_session(user: BrowserUser, root: Path) -> None:
    (root / "deep" / "er").mkdir(parents=True)
    user.page.reload()
    user.open("deep")
    user.open("er")
    user.page.reload()
    expect(user.page.locator(".crumb[aria-current]")).to_have_text("er")
    expect(user.heading).to_have_text("This folder is empty")


def test_sign_out_in_another_tab_is_noticed(user: BrowserUser, root: Path) -> None:
    (root / "folder").mkdir()
    with user.page.expect_popup() as opened:
        user.page.evaluate("window.open(location.href)")  # which copies the tab's session
    other = BrowserUser(user.gateway, opened.value)
    expect(other.row("folder")).to_be_visible()
    user.page.reload()
    other.user_menu("Sign out")
    for one in (other, user):
        expect(one.page.get_by_text("You're signed out.")).to_be_visible()
        expect(one.page.get_by_text("folder", exact=True)).to_have_count(0)
        assert one.page.evaluate("sessionStorage.getItem('portico.session')") is None
    user.sign_in()
    expect(user.row("folder")).to_be_visible()
    other.check_silence()


def test_a_sign_out_that_a_tab_has_missed(user: BrowserUser, root: Path) -> None:
    (root / "folder").mkdir()
    with user.page.expect_popup() as opened:
        user.page.evaluate("window.open(location.href)")
    other = BrowserUser(user.gateway, opened.value)
    expect(other.row("folder")).to_be_visible()
    user.page.reload()
    other.page.evaluate("BroadcastChannel.prototype.postMessage = () => undefined")
    other.user_menu("Sign out")
    expect(other.page.get_by_text("You're signed out.")).to_be_visible()
    for status in (400, 401):
        user.expect_refusal(status)
    user.row("folder").locator(".open").click()
    expect(user.page.get_by_text("Your session has ended")).to_be_visible()
    expect(user.page.get_by_label("Username")).to_have_value("web")
    user.sign_in()
    expect(user.page.locator(".crumb[aria-current]")).to_have_text("folder")
    other.check_silence()


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Gateway]:
    """A gateway whose access tokens last two seconds."""
    gateway = Gateway(tmp_path / "home", settings={"PORTICO_SECURITY_TOKEN_LIFETIME": "2"})
    gateway.start()
    yield gateway
    gateway.kill()


def large(folder: Path, count: int) -> list[Path]:
    """Files that need requests of their own. The browser reads them itself: content would pass through the driver."""
    paths = [folder / f"{number}.bin" for number in range(count)]
    for path in paths:
        path.write_bytes(bytes(TOO_LARGE_TO_SHARE))
    return paths


def test_tokens_are_renewed_quietly(hasty: Gateway, open_page: OpenPage, tmp_path: Path) -> None:
    user = open_page(hasty)
    user.sign_in()
    user.expect_refusal(401)  # a token may expire in transit
    user.slow_down(6_000_000)
    # More than are sent at once: the last ones begin when the first token has expired.
    user.choose_files(*large(tmp_path, 9))
    expect(user.upload_panel.locator("h2")).to_have_text("9 files uploaded")
    assert sum("/backend/login" in url for url in user.requests) >= 2
    # A token that the gateway refuses although the page considers it valid is renewed, and the request repeated.
    user.page.evaluate(
        """() => {
            const kept = JSON.parse(sessionStorage["portico.session"]);
            sessionStorage["portico.session"] = JSON.stringify({...kept, expires: Date.now() + 1e6});
        }"""
    )
    user.page.reload()
    user.settle()
    token = user.page.evaluate("JSON.parse(sessionStorage['portico.session']).access")
    wait_until(lambda: is_refused(hasty, token), "the token has expired")
    (hasty.files / "web" / "another.bin").write_bytes(b"")
    user.press("r")
    expect(user.status).to_have_text("10 items")


def test_uploads_continue_after_signing_in_again(
    open_page: OpenPage, gateway: Gateway, root: Path, tmp_path: Path
) -> None:
    user = open_page(gateway)
    user.sign_in()
    user.slow_down(1_000_000)
    user.choose_files(*large(tmp_path, 5))
    expect(user.upload_panel).to_be_visible()
    for status in (400, 401):
        user.expect_refusal(status)
    token = user.page.evaluate("JSON.parse(sessionStorage['portico.session']).access")
    httpx2.post(f"{gateway.url}/backend/logout", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    expect(user.page.get_by_text("Your session has ended")).to_be_visible()
    user.slow_down(-1)
    user.sign_in()
    expect(user.upload_panel.locator("h2")).to_have_text("5 files uploaded")
    assert len(list(root.iterdir())) == 5
