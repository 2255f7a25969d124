"""Names with direction overrides and invisible characters, everywhere on the page."""

from pathlib import Path

from playwright.sync_api import expect

from ..gateways import Gateway
from ..names import DECEPTIVE, HONEST
from .browser_user import BrowserUser, file
from .conftest import OpenPage

LIE, SHOWN = next(iter(DECEPTIVE.items()))

# Everything that is seen or read out; what is typed into fields stays as it is.
SEEN = """() => {
  const texts = [document.title];
  for (const element of document.querySelectorAll("*")) {
    for (const name of ["title", "alt", "aria-label", "placeholder"]) texts.push(element.getAttribute(name) ?? "");
    if (!element.matches("script, style")) texts.push(...[...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data));
  }
  return texts.join("\\n");
}"""


def check(user: BrowserUser) -> None:
    seen = user.page.evaluate(SEEN)
    assert SHOWN in seen
    assert "\u202e" not in seen


def test_both_sides_escape_alike(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    for name in (*DECEPTIVE, *HONEST):
        (root / name).write_text("x")
    user = open_page(gateway, signed_in=True, viewport={"width": 1280, "height": 2400})
    assert sorted(user.names) == sorted([*DECEPTIVE.values(), *HONEST])


def test_every_view_shows_the_name_for_what_it_is(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / LIE).mkdir()
    (root / LIE / f"{LIE}.txt").write_text("content")
    user = open_page(gateway, signed_in=True)
    check(user)
    for action in ("Rename", "Delete", "Details", "Move"):
        user.act(SHOWN, action)
        expect(user.dialog).to_be_visible()
        check(user)
        user.press("Escape")
        expect(user.dialog).to_be_hidden()
    user.open(SHOWN)
    check(user)
    isolation = user.page.locator(".row:not([hidden]) .open bdi").evaluate("it => getComputedStyle(it).unicodeBidi")
    assert isolation.startswith("isolate")
    user.choose_files(file(LIE))
    expect(user.upload_panel).to_contain_text("1 file uploaded")
    check(user)
    user.row(f"{SHOWN}.txt").locator(".open").click()
    expect(user.dialog).to_contain_text("content")
    check(user)
    user.close_preview()
    user.press("s")
    user.page.keyboard.type("fdp")
    user.press("Enter")
    expect(user.page.locator(".found:not([hidden])").first).to_be_visible()
    check(user)
