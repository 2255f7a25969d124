"""Errors are shown in the reader's language, by their code; the gateway's English is for scripts."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from portico.api.problems import PROBLEM_TYPES

from ..gateways import Gateway
from .browser_user import BrowserUser, file
from .conftest import OpenPage
from .test_delivery import LANGUAGES, WEB

ENGLISH = "An English sentence of the gateway."


def sentence_keys(language: str) -> set[str]:
    lines = (WEB / "js" / "i18n" / "messages" / f"{language}.js").read_text().splitlines()
    return {line.split(":")[0].strip() for line in lines if line.startswith("  problem_")}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_code_has_a_sentence_in_every_language(language: str) -> None:
    wanted = {f"problem_{code.replace('-', '_')}" for code in PROBLEM_TYPES}
    # Of the sign-in, which has codes of its own.
    wanted |= {"problem_invalid_client", "problem_access_denied"}
    wanted |= {"problem_storage_full_trash", "problem_storage_full_guest"}
    assert sentence_keys(language) == wanted


def refuse(
    user: BrowserUser,
    status: int,
    code: str,
    *,
    what: str = "**/*action=MOVE*",
    method: str = "POST",
    detail: str = ENGLISH,
) -> None:
    """From now on, refuse every rename, or the requests that `what` matches."""
    body = {"code": code, "status": status, "detail": detail, "requestId": "0123456789abcdef"}

    def answer(route: Route) -> None:
        if route.request.method == method:
            route.fulfill(status=status, content_type="application/problem+json", body=json.dumps(body))
        else:
            route.fallback()

    user.expect_refusal(status)
    user.page.unroute(what)
    user.page.route(what, answer)


GERMAN = [
    (409, "already-exists", "Dieser Name ist schon vergeben. Wählen Sie einen anderen.", False),
    (403, "forbidden", "Dazu fehlt Ihnen die Berechtigung.", False),
    (502, "provider-refused", "Der Speicherdienst hat dem Gateway den Zugriff verweigert.", True),
    (500, "internal", "Im Gateway ist etwas schiefgegangen.", True),
    (418, "unheard-of", ENGLISH, True),
]


def test_an_error_is_translated_and_has_an_id_only_where_the_log_says_more(
    open_page: OpenPage, gateway: Gateway, root: Path
) -> None:
    (root / "a.txt").write_text("x")
    user = open_page(gateway, locale="de-DE")
    user.page.locator("#username").fill("web")
    user.page.locator("#password").fill(user.password)
    user.press("Enter")
    expect(user.row("a.txt")).to_be_visible()
    for status, code, sentence, has_id in GERMAN:
        refuse(user, status, code)
        user.press("F2")
        user.page.locator("#name-field").fill("b.txt")
        user.press("Enter")
        alert = user.dialog.get_by_role("alert")
        expect(alert).to_contain_text(sentence)
        if has_id:
            expect(alert).to_contain_text("(Anfrage-ID: 0123456789abcdef)")
        else:
            expect(alert).not_to_contain_text("Anfrage")
        user.press("Escape")
        expect(user.dialog).to_have_count(0)


HALF_DONE = (
    "The storage service cannot be reached. 12 files were copied before that. "
    "To continue, repeat the request with onConflict=replace and the target '/b'."
)


DETAIL_IS_SHOWN = [
    (503, "provider-unavailable", True),
    (504, "provider-timeout", True),
    (412, "changed", True),
    (400, "invalid-path", True),
    (400, "invalid-request", True),
    (409, "not-possible", True),
    (409, "already-exists", False),
    (403, "forbidden", False),
]


def test_the_gateways_detail_is_shown_in_small_type_where_it_says_more(user: BrowserUser, root: Path) -> None:
    (root / "a").mkdir()
    user.press("r")
    for status, code, is_shown in DETAIL_IS_SHOWN:
        rename_refused(user, status, code)
        alert = user.dialog.get_by_role("alert")
        expect(alert, code).not_to_be_empty()
        detail = alert.locator("small")
        if is_shown:
            expect(detail, code).to_have_text(HALF_DONE)
            expect(detail).to_have_attribute("lang", "en")
        else:
            expect(detail, code).to_have_count(0)
        if code == "changed":
            user.check_access()
        user.press("Escape")
        expect(user.dialog).to_have_count(0)


def rename_refused(user: BrowserUser, status: int, code: str) -> None:
    """Rename `a` to `b`, which is refused."""
    expect(user.row("a")).to_be_visible()
    refuse(user, status, code, detail=HALF_DONE)
    user.row("a").click()
    user.press("F2")
    user.page.locator("#name-field").fill("b")
    user.press("Enter")


def test_a_rename_that_broke_off_can_be_carried_on(user: BrowserUser, root: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "rest.txt").write_text("rest")
    user.press("r")
    rename_refused(user, 503, "provider-unavailable")
    expect(user.dialog.get_by_role("alert")).to_contain_text("12 files were copied")
    (root / "b").mkdir()
    (root / "b" / "first.txt").write_text("first")
    user.page.unroute("**/*action=MOVE*")
    user.expect_refusal(409)
    user.press("Enter")
    user.page.locator("[data-choice=replace]").click()
    expect(user.dialog).to_have_count(0)
    user.expect_names("b")
    assert sorted(path.name for path in (root / "b").iterdir()) == ["first.txt", "rest.txt"]


def test_a_name_that_was_taken_before_is_not_offered_for_replacement(user: BrowserUser, root: Path) -> None:
    (root / "a").mkdir()
    (root / "b").mkdir()
    user.press("r")
    rename_refused(user, 409, "already-exists")
    expect(user.dialog.get_by_role("alert")).to_contain_text("already taken")
    user.page.locator("#name-field").fill("b")
    user.press("Enter")
    expect(user.dialog.get_by_role("alert")).to_contain_text("already taken")
    expect(user.page.locator("[data-choice=replace]")).to_have_count(0)


def test_a_delete_that_broke_off_says_how_much_is_done(user: BrowserUser, root: Path) -> None:
    (root / "a").mkdir()
    user.press("r")
    said = "The storage service failed. 7 files were deleted before that. Repeat the request to continue."
    refuse(user, 502, "provider-error", what="**/filesystem/a*", method="DELETE", detail=said)
    user.row("a").click()
    user.press("Delete")
    user.dialog.get_by_role("button", name="Delete 1 item").click()
    expect(user.dialog.locator("li small")).to_have_text(said)


def test_a_limit_is_shown_with_the_upload_that_passed_it(user: BrowserUser) -> None:
    said = "'a.bin' is larger than the 5 bytes that a file may have."
    refuse(user, 413, "too-large", what="**/filesystem/*", method="PUT", detail=said)
    user.choose_files(file("a.bin"))
    user.upload_panel.get_by_role("button", name="Details").click()
    expect(user.dialog.locator("li small")).to_have_text(said)


def test_a_download_of_what_has_become_a_folder_says_to_refresh(user: BrowserUser, root: Path) -> None:
    (root / "a.txt").write_text("x")
    user.press("r")
    expect(user.row("a.txt")).to_be_visible()
    (root / "a.txt").unlink()
    (root / "a.txt").mkdir()
    user.expect_refusal(409)
    user.act("a.txt", "Download")
    expect(user.page.get_by_role("alert")).to_contain_text("A folder with this name already exists. Refresh the list")


def test_a_path_that_is_too_deep_is_not_blamed_on_its_characters(user: BrowserUser) -> None:
    refuse(user, 400, "invalid-path", what="**/*action=MKDIR*", detail="Paths can be at most 100 levels deep.")
    user.press("n")
    user.page.locator("#name-field").fill("one more")
    user.press("Enter")
    alert = user.dialog.get_by_role("alert")
    expect(alert).to_contain_text("This name or path isn't allowed here.")
    expect(alert).not_to_contain_text("slash")
    expect(alert.locator("small")).to_have_text("Paths can be at most 100 levels deep.")


def test_a_full_storage_leads_to_the_trash_and_to_permanent_deletion(user: BrowserUser, root: Path) -> None:
    (root / "old.txt").write_text("old")
    user.press("r")
    refuse(user, 507, "storage-full", what="**/filesystem/*", method="PUT")
    user.choose_files(file("new.txt"))
    expect(user.upload_panel).to_contain_text("Deleted files still take up space")
    user.upload_panel.get_by_role("button", name="Open trash").click()
    expect(user.dialog.locator("h2")).to_have_text("Trash")
    user.press("Escape")
    user.row("old.txt").click()
    user.press("Delete")
    expect(user.dialog.get_by_label("Delete permanently")).not_to_be_checked()
    user.dialog.get_by_label("Delete permanently").check()
    user.dialog.get_by_role("button", name="Delete 1 item").click()
    user.expect_names()
    expect(user.page.get_by_role("button", name="Undo")).to_have_count(0)
    user.user_menu("Trash")
    expect(user.dialog).not_to_contain_text("old.txt")
