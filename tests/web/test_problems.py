"""What went wrong is said in the reader's language, by its code; the gateway's English is for scripts."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from portico.api.problems import KINDS

from ..gateways import Gateway
from .conftest import Visit
from .test_delivery import LANGUAGES, WEB
from .visitors import Visitor

ENGLISH = "An English sentence of the gateway."


def sentence_keys(language: str) -> set[str]:
    lines = (WEB / "js" / "texts" / f"{language}.js").read_text().splitlines()
    return {line.split(":")[0].strip() for line in lines if line.startswith("  problem_")}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_code_has_a_sentence_in_every_language(language: str) -> None:
    wanted = {f"problem_{code.replace('-', '_')}" for code in KINDS} | {"problem_invalid_client"}
    assert sentence_keys(language) == wanted


def refuse(visitor: Visitor, status: int, code: str) -> None:
    """From now on every rename is answered so."""
    body = {"code": code, "status": status, "detail": ENGLISH, "requestId": "0123456789abcdef"}

    def answer(route: Route) -> None:
        route.fulfill(status=status, content_type="application/problem+json", body=json.dumps(body))

    visitor.expect_refusal(status)
    visitor.page.route("**/*action=MOVE*", answer)


@pytest.mark.parametrize(
    ("status", "code", "sentence", "has_id"),
    [
        (409, "already-exists", "Dieser Name ist schon vergeben. Wählen Sie einen anderen.", False),
        (403, "forbidden", "Dafür fehlt Ihnen das Recht.", False),
        (502, "provider-refused", "Der Speicherdienst hat das Gateway abgewiesen.", True),
        (500, "internal", "Das Gateway hat einen Fehler gemacht.", True),
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
