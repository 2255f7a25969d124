"""What went wrong is said in the reader's language, by its code; the gateway's English is for scripts."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from portico.api.problems import KINDS

from ..gateways import Gateway
from .conftest import Visit
from .test_delivery import LANGUAGES, WEB
from .visitors import Visitor, file

ENGLISH = "An English sentence of the gateway."


def sentence_keys(language: str) -> set[str]:
    lines = (WEB / "js" / "texts" / f"{language}.js").read_text().splitlines()
    return {line.split(":")[0].strip() for line in lines if line.startswith("  problem_")}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_code_has_a_sentence_in_every_language(language: str) -> None:
    wanted = {f"problem_{code.replace('-', '_')}" for code in KINDS} | {"problem_invalid_client"}
    assert sentence_keys(language) == wanted


def refuse(
    visitor: Visitor,
    status: int,
    code: str,
    *,
    what: str = "**/*action=MOVE*",
    method: str = "POST",
    detail: str = ENGLISH,
) -> None:
    """From now on every rename, or what else is named, is answered so."""
    body = {"code": code, "status": status, "detail": detail, "requestId": "0123456789abcdef"}

    def answer(route: Route) -> None:
        if route.request.method == method:
            route.fulfill(status=status, content_type="application/problem+json", body=json.dumps(body))
        else:
            route.fallback()

    visitor.expect_refusal(status)
    visitor.page.route(what, answer)


@pytest.mark.parametrize(
    ("status", "code", "sentence", "has_id"),
    [
        (409, "already-exists", "Dieser Name ist schon vergeben. Wählen Sie einen anderen.", False),
        (403, "forbidden", "Dafür fehlt Ihnen das Recht.", False),
        (502, "provider-refused", "Der Speicherdienst hat das Gateway abgewiesen.", True),
        (500, "internal", "Im Gateway ist etwas schiefgegangen.", True),
        (418, "unheard-of", ENGLISH, True),
    ],
)
def test_a_refusal_is_said_in_german_with_an_id_only_where_the_log_says_more(
    visit: Visit, gateway: Gateway, root: Path, status: int, code: str, sentence: str, has_id: bool
) -> None:
    (root / "a.txt").write_text("x")
    visitor = visit(gateway, locale="de-DE")
    visitor.page.locator("#username").fill("web")
    visitor.page.locator("#password").fill(visitor.password)
    visitor.press("Enter")
    expect(visitor.row("a.txt")).to_be_visible()
    refuse(visitor, status, code)
    visitor.press("F2")
    visitor.page.locator("#asked-name").fill("b.txt")
    visitor.press("Enter")
    alert = visitor.dialog.get_by_role("alert")
    expect(alert).to_contain_text(sentence)
    if has_id:
        expect(alert).to_contain_text("(Anfrage 0123456789abcdef)")
    else:
        expect(alert).not_to_contain_text("Anfrage")


HALF_DONE = (
    "The storage service cannot be reached. 12 files were copied before that. "
    "To carry on, ask again with onConflict=replace and the target '/b'."
)


@pytest.mark.parametrize(
    ("status", "code", "is_shown"),
    [
        (503, "provider-unavailable", True),
        (504, "provider-timeout", True),
        (412, "changed", True),
        (400, "invalid-path", True),
        (400, "invalid-request", True),
        (409, "not-possible", True),
        (409, "already-exists", False),
        (403, "forbidden", False),
    ],
)
def test_the_gateways_sentence_is_shown_in_small_type_where_it_says_more(
    visitor: Visitor, root: Path, status: int, code: str, is_shown: bool
) -> None:
    rename_refused(visitor, root, status, code)
    detail = visitor.dialog.get_by_role("alert").locator("small")
    if is_shown:
        expect(detail).to_have_text(HALF_DONE)
        expect(detail).to_have_attribute("lang", "en")
        visitor.check_access()
    else:
        expect(visitor.dialog.get_by_role("alert")).not_to_be_empty()
        expect(detail).to_have_count(0)


def rename_refused(visitor: Visitor, root: Path, status: int, code: str) -> None:
    (root / "a").mkdir()
    (root / "a" / "rest.txt").write_text("rest")
    visitor.press("r")
    expect(visitor.row("a")).to_be_visible()
    refuse(visitor, status, code, detail=HALF_DONE)
    visitor.row("a").click()
    visitor.press("F2")
    visitor.page.locator("#asked-name").fill("b")
    visitor.press("Enter")


def test_a_rename_that_broke_off_can_be_carried_on(visitor: Visitor, root: Path) -> None:
    rename_refused(visitor, root, 503, "provider-unavailable")
    expect(visitor.dialog.get_by_role("alert")).to_contain_text("12 files were copied")
    (root / "b").mkdir()
    (root / "b" / "first.txt").write_text("first")
    visitor.page.unroute("**/*action=MOVE*")
    visitor.expect_refusal(409)
    visitor.press("Enter")
    visitor.page.locator("[data-choice=replace]").click()
    expect(visitor.dialog).to_have_count(0)
    visitor.expect_names("b")
    assert sorted(path.name for path in (root / "b").iterdir()) == ["first.txt", "rest.txt"]


def test_a_name_that_was_taken_before_is_not_offered_for_replacement(visitor: Visitor, root: Path) -> None:
    (root / "b").mkdir()
    rename_refused(visitor, root, 409, "already-exists")
    expect(visitor.dialog.get_by_role("alert")).to_contain_text("already taken")
    visitor.page.locator("#asked-name").fill("b")
    visitor.press("Enter")
    expect(visitor.dialog.get_by_role("alert")).to_contain_text("already taken")
    expect(visitor.page.locator("[data-choice=replace]")).to_have_count(0)


def test_a_delete_that_broke_off_says_how_much_is_done(visitor: Visitor, root: Path) -> None:
    (root / "a").mkdir()
    visitor.press("r")
    said = "The storage service failed. 7 files were deleted before that. Ask again to carry on."
    refuse(visitor, 502, "provider-error", what="**/filesystem/a*", method="DELETE", detail=said)
    visitor.row("a").click()
    visitor.press("Delete")
    visitor.dialog.get_by_role("button", name="Delete 1 item").click()
    expect(visitor.dialog.locator("li small")).to_have_text(said)


def test_a_limit_is_shown_with_the_upload_that_passed_it(visitor: Visitor) -> None:
    said = "'a.bin' is larger than the 5 bytes that a file may have."
    refuse(visitor, 413, "too-large", what="**/filesystem/*", detail=said)
    visitor.choose_files(file("a.bin"))
    visitor.tray.get_by_role("button", name="Details").click()
    expect(visitor.dialog.locator("li small")).to_have_text(said)


def test_a_download_of_what_has_become_a_folder_says_to_refresh(visitor: Visitor, root: Path) -> None:
    (root / "a.txt").write_text("x")
    visitor.press("r")
    expect(visitor.row("a.txt")).to_be_visible()
    (root / "a.txt").unlink()
    (root / "a.txt").mkdir()
    visitor.expect_refusal(409)
    visitor.act("a.txt", "Download")
    expect(visitor.page.get_by_role("alert")).to_contain_text("A folder has this name. Refresh the list")


def test_a_path_that_is_too_deep_is_not_blamed_on_its_characters(visitor: Visitor) -> None:
    refuse(visitor, 400, "invalid-path", what="**/*action=MKDIR*", detail="A path may have 100 levels here.")
    visitor.press("n")
    visitor.page.locator("#asked-name").fill("one more")
    visitor.press("Enter")
    alert = visitor.dialog.get_by_role("alert")
    expect(alert).to_contain_text("This name or path cannot be used here.")
    expect(alert).not_to_contain_text("slash")
    expect(alert.locator("small")).to_have_text("A path may have 100 levels here.")
