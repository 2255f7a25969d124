"""Signing in and out, and staying signed in."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect

from ..gateways import Gateway, wait_until
from .conftest import Visit
from .visitors import Visitor, file


def test_sign_in_by_keyboard_and_sign_out(visit: Visit, gateway: Gateway, root: Path) -> None:
    (root / "hello.txt").write_text("hello")
    visitor = visit(gateway)
    expect(visitor.page.get_by_label("User name")).to_be_focused()
    visitor.page.keyboard.type("web")
    visitor.press("Tab")
    visitor.page.keyboard.type(visitor.password)
    visitor.press("Enter")
    expect(visitor.row("hello.txt")).to_be_visible()
    token = visitor.page.evaluate("JSON.parse(sessionStorage['portico.session']).access")
    visitor.user_menu("Sign out")
    expect(visitor.page.get_by_text("You are signed out.")).to_be_visible()
    assert visitor.page.evaluate("sessionStorage.length") == 0

    def ended() -> bool:
        answer = httpx2.get(
            f"{gateway.url}/backend/session", headers={"Authorization": f"Bearer {token}"}, trust_env=False
        )
        return answer.status_code == 401

    wait_until(ended, "the token is revoked")


def test_fields_are_what_password_managers_look_for(visit: Visit, gateway: Gateway) -> None:
    page = visit(gateway).page
    expect(page.get_by_label("User name")).to_have_attribute("autocomplete", "username")
    expect(page.get_by_label("Password")).to_have_attribute("autocomplete", "current-password")
    expect(page.get_by_label("Password")).to_have_attribute("type", "password")


def test_wrong_password_is_told(visit: Visit, gateway: Gateway) -> None:
    visitor = visit(gateway)
    visitor.expect_refusal(400)
    visitor.sign_in(password="wrong password")
    expect(visitor.page.get_by_role("alert")).to_contain_text("User name or password is wrong")
    expect(visitor.page.get_by_label("Password")).to_be_focused()
    visitor.sign_in()


def test_throttled_sign_in_counts_the_wait_of_that_name_down(visit: Visit, gateway: Gateway) -> None:
    visitor = visit(gateway)
    visitor.expect_refusal(400)
    visitor.expect_refusal(429)
    alert = visitor.page.get_by_role("alert")
    for _ in range(10):
        visitor.sign_in("somebody", "wrong password")
        expect(alert).to_contain_text("wrong")
    visitor.sign_in("somebody", "wrong password")
    expect(alert).to_contain_text(re.compile(r"Too many sign-in attempts.*Try again in 1\d min"))
    submit = visitor.page.get_by_role("button", name="Sign in")
    expect(submit).to_be_disabled()
    # The wait is of that name: somebody else at the same browser can sign in.
    visitor.page.get_by_label("User name").fill("somebody else")
    expect(submit).to_be_enabled()
    expect(visitor.page.locator("#sign-in-problem")).to_be_empty()
    visitor.page.get_by_label("User name").fill("SOMEBODY ")
    expect(submit).to_be_disabled()
    expect(alert).to_contain_text("Try again in")
    visitor.sign_in()


def test_unreachable_gateway_is_told(visit: Visit, gateway: Gateway) -> None:
    visitor = visit(gateway)
    visitor.expect_refusal("net::ERR")
    visitor.page.context.set_offline(True)
    visitor.sign_in(password="whatever it is")
    expect(visitor.page.get_by_role("alert")).to_contain_text("cannot be reached")
    visitor.page.context.set_offline(False)
    visitor.sign_in()


def test_reload_keeps_place_and_session(visitor: Visitor, root: Path) -> None:
    (root / "deep" / "er").mkdir(parents=True)
    visitor.page.reload()
    visitor.open("deep")
    visitor.open("er")
    visitor.page.reload()
    expect(visitor.page.locator(".crumb[aria-current]")).to_have_text("er")
    expect(visitor.heading).to_have_text("This folder is empty")


def test_sign_out_in_another_tab_is_noticed(visitor: Visitor, root: Path) -> None:
    (root / "folder").mkdir()
    with visitor.page.expect_popup() as opened:
        visitor.page.evaluate("window.open(location.href)")  # which copies the tab's session
    other = Visitor(visitor.gateway, opened.value)
    other.page.set_default_timeout(10_000)
    expect(other.row("folder")).to_be_visible()
    visitor.page.reload()
    other.user_menu("Sign out")
    expect(other.page.get_by_text("You are signed out.")).to_be_visible()
    for status in (400, 401):
        visitor.expect_refusal(status)
    visitor.row("folder").locator(".open").click()
    expect(visitor.page.get_by_text("Your session has ended")).to_be_visible()
    expect(visitor.page.get_by_label("User name")).to_have_value("web")
    visitor.sign_in()
    expect(visitor.page.locator(".crumb[aria-current]")).to_have_text("folder")
    other.check_silence()


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Gateway]:
    """A gateway whose access tokens last two seconds."""
    gateway = Gateway(tmp_path / "home", settings={"PORTICO_SECURITY_TOKEN_LIFETIME": "2"})
    gateway.start()
    yield gateway
    gateway.kill()


def test_tokens_are_renewed_quietly(hasty: Gateway, visit: Visit) -> None:
    visitor = visit(hasty)
    visitor.sign_in()
    visitor.expect_refusal(401)  # a token may end on the way
    visitor.slow_down(300_000)
    visitor.choose_files(*(file(f"{number}.bin", bytes(120_000)) for number in range(9)))
    expect(visitor.tray.locator("h2")).to_have_text("9 files uploaded", timeout=30_000)
    assert sum("/backend/login" in url for url in visitor.requests) >= 2
    # A token that the gateway no longer takes, though the page believes in it: renewed once, and asked again.
    visitor.page.evaluate(
        """() => {
            const kept = JSON.parse(sessionStorage["portico.session"]);
            sessionStorage["portico.session"] = JSON.stringify({...kept, expires: Date.now() + 1e6});
        }"""
    )
    visitor.page.reload()
    visitor.settle()
    visitor.page.wait_for_timeout(2500)
    (hasty.files / "web" / "another.bin").write_bytes(b"")
    visitor.press("r")
    expect(visitor.status).to_have_text("10 items")


def test_uploads_wait_for_whoever_signs_in_again(visit: Visit, gateway: Gateway, root: Path) -> None:
    visitor = visit(gateway)
    visitor.sign_in()
    visitor.slow_down(300_000)
    visitor.choose_files(*(file(f"{number}.bin", bytes(100_000)) for number in range(8)))
    expect(visitor.tray).to_be_visible()
    for status in (400, 401):
        visitor.expect_refusal(status)
    token = visitor.page.evaluate("JSON.parse(sessionStorage['portico.session']).access")
    httpx2.post(
        f"{gateway.url}/backend/logout", headers={"Authorization": f"Bearer {token}"}, trust_env=False
    )
    expect(visitor.page.get_by_text("Your session has ended")).to_be_visible()
    visitor.sign_in()
    expect(visitor.tray.locator("h2")).to_have_text("8 files uploaded", timeout=20_000)
    assert len(list(root.iterdir())) == 8
