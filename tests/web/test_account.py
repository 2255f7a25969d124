"""The account dialog, keys for scripts, invitations, and the session in a cookie."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Cookie, expect

from ..gateways import Gateway
from .browser_user import BrowserUser
from .conftest import OpenPage

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
NEW = "a walk in the woods"


@pytest.fixture
def carol(gateway: Gateway) -> Iterator[str]:
    """The link of an invitation."""
    out = gateway.command("user", "add", "carol", "--root", "/web", "--invite")
    yield re.findall(r"(/invite#\S+)", out)[0]
    gateway.command("user", "delete", "carol")


@pytest.fixture
def user(open_page: OpenPage, gateway: Gateway) -> BrowserUser:
    """Signed in by the form: then the refresh token is in a cookie."""
    user = open_page(gateway)
    user.sign_in()
    return user


def session_cookies(user: BrowserUser) -> list[Cookie]:
    return [
        each
        for each in user.page.context.cookies([f"{user.gateway.url}/backend/login"])
        if each["name"] == "portico-session"
    ]


def test_an_invitation_a_password_sessions_and_keys(
    open_page: OpenPage, gateway: Gateway, carol: str, tmp_path: Path
) -> None:
    user = open_page(gateway, carol)
    page = user.page
    user.expect_refusal(400)
    expect(page.get_by_text("Choose a password for carol.")).to_be_visible()
    user.check_access()
    page.keyboard.type("Sunshine2026")
    user.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("too easy to guess")
    user.press("Control+A")
    page.keyboard.type(NEW)
    user.press("Enter")
    user.settle()
    assert page.url == f"{gateway.url}/"
    # Once only.
    other = open_page(gateway, carol)
    other.expect_refusal(404)
    expect(other.page.get_by_role("alert")).to_contain_text("This link doesn't work")

    user.user_menu("Account")
    expect(user.dialog).to_contain_text("Replace, rename and delete")
    user.check_access()
    # By keyboard: the tab bar has the focus.
    user.press("ArrowRight")
    expect(user.dialog.get_by_text("This browser")).to_be_visible()
    form = {"grant_type": "password", "username": "carol", "password": NEW}
    script = re.findall(r'= "(.*?)"', httpx2.get(f"{gateway.url}/config.js", trust_env=False).text)
    for _ in range(2):
        headers = {"User-Agent": "backup-script/2"}
        httpx2.post(f"{gateway.url}/backend/login", data=form, auth=tuple(script), headers=headers, trust_env=False)
    user.press("ArrowRight", "ArrowLeft")
    ends = user.dialog.get_by_role("button", name="End the session of backup-script/2")
    expect(ends).to_have_count(2)
    ends.first.click()
    expect(ends).to_have_count(1)
    user.dialog.get_by_role("button", name="End all other sessions").click()
    expect(ends).to_have_count(0)

    user.dialog.get_by_role("tab", name="API keys").click()
    expect(user.dialog).to_contain_text("no API keys yet")
    user.check_access()
    user.dialog.get_by_label("Name", exact=True).fill("nightly")
    user.dialog.get_by_label("Upload").uncheck()
    user.dialog.get_by_label("Allowed addresses").fill("everywhere")
    user.dialog.get_by_role("button", name="Create key").click()
    expect(user.dialog.get_by_role("alert")).to_contain_text("'everywhere' is not a valid address")
    user.dialog.get_by_label("Allowed addresses").fill("127.0.0.0/8, ::1")
    user.press("Enter")
    key = user.dialog.locator(".made-key code").text_content() or ""
    answer = httpx2.get(f"{gateway.url}/backend/session", headers={"Authorization": f"Bearer {key}"}, trust_env=False)
    assert answer.json()["rights"] == ["list", "download", "overwrite"]
    expect(user.dialog.locator(".credentials li")).to_contain_text("127.0.0.0/8")
    user.check_access()
    user.dialog.get_by_role("button", name="End the key nightly").click()
    user.dialog.get_by_role("button", name="End key").click()
    expect(user.dialog).to_contain_text("no API keys yet")

    user.dialog.get_by_role("tab", name="Overview").click()
    user.dialog.get_by_label("Current password").fill("wrong password")
    user.dialog.get_by_label("New password").fill("a run in the woods")
    user.expect_refusal(403)
    user.press("Enter")
    expect(user.dialog.get_by_role("alert")).to_contain_text("The password is wrong")
    user.dialog.get_by_label("Current password").fill(NEW)
    user.press("Enter")
    expect(page.locator(".notice")).to_contain_text("Password changed.")
    user.press("Escape")
    user.user_menu("Sign out")
    user.sign_in("carol", "a run in the woods")
    user.settle()


def test_lines_with_a_key_work(user: BrowserUser, root: Path, tmp_path: Path) -> None:
    (root / "in box").mkdir()
    (root / "in box" / "found.txt").write_text("x")
    user.press("r")
    user.open("in box")
    user.page.get_by_role("button", name="Automate").click()
    user.dialog.get_by_role("button", name="Create a key for this folder").click()
    expect(user.dialog).to_contain_text("opens only this folder")
    user.check_access()
    lines = {}
    for kind in ("curl", "portico", "Python"):
        user.dialog.get_by_role("tab", name=kind).click()
        lines[kind] = user.dialog.locator("pre").text_content() or ""
    (tmp_path / "FILE").write_text("by a key")
    key = re.findall(r"pk_\w{36}", lines["curl"])[0]
    environment = {"PATH": str(Path(sys.executable).parent) + ":/usr/bin:/bin", "HOME": str(tmp_path)}

    def run(*command: str, **more: str) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, check=True, env={**environment, **more}
        )
        return done.stdout

    assert '"found.txt"' in run("bash", "-c", lines["curl"])
    assert (root / "in box" / "FILE").read_text() == "by a key"
    assert "found.txt\t1\n" in run(sys.executable, "-c", lines["Python"], PORTICO_KEY=key)
    assert "found.txt" in run("bash", "-c", lines["portico"])


def test_a_new_tab_is_signed_in_and_no_script_reads_the_refresh_token(user: BrowserUser, open_page: OpenPage) -> None:
    page = user.page
    [cookie] = session_cookies(user)
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/backend/login")
    kept = page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])")
    assert cookie["value"] not in kept
    tab = BrowserUser(user.gateway, page.context.new_page())
    tab.page.goto(user.gateway.url)
    tab.settle()
    # Several tabs that renew at the same time go on working.
    for each in (page, tab.page):
        each.evaluate(
            """() => {
                const kept = JSON.parse(sessionStorage["portico.session"]);
                sessionStorage["portico.session"] = JSON.stringify({...kept, expires: 0});
            }"""
        )
    page.evaluate("location.reload()")
    tab.page.reload()
    for one in (user, tab):
        one.settle()
    tab.user_menu("Sign out")
    expect(tab.page.get_by_text("You're signed out.")).to_be_visible()
    user.wait_until(lambda: not session_cookies(user))
    third = BrowserUser(user.gateway, page.context.new_page())
    third.page.goto(user.gateway.url)
    expect(third.page.get_by_label("Username")).to_be_visible()
    for one in (tab, third):
        one.check_silence()
        one.page.close()


def test_a_tab_does_not_become_somebody_else(user: BrowserUser) -> None:
    other = BrowserUser(user.gateway, user.page.context.new_page())
    other.page.goto(user.gateway.url)
    other.settle()
    other.page.evaluate("BroadcastChannel.prototype.postMessage = () => undefined")
    other.user_menu("Sign out")
    other.sign_in("reader", "pass word")
    other.settle()
    for status in (400, 401):
        user.expect_refusal(status)
    user.press("r")
    expect(user.page.get_by_text("Your session has ended")).to_be_visible()
    other.check_silence()
    other.page.close()


@pytest.mark.parametrize("look", [PHONE, {"color_scheme": "dark"}], ids=["phone", "dark"])
def test_the_account_fits(open_page: OpenPage, gateway: Gateway, look: dict[str, Any]) -> None:
    user = open_page(gateway, **look)
    user.sign_in()
    user.user_menu("Account")
    for tab in ("Sessions", "API keys", "Overview"):
        user.dialog.get_by_role("tab", name=tab).click()
        expect(user.dialog.locator(".account:not([aria-busy])")).to_be_visible()
        assert user.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        user.check_access("color-contrast", "target-size")
