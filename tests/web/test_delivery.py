"""What the page is made of, and how it is served."""

import re
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page

import portico
from portico.api.pages import ASSETS, PAGE_POLICY

from ..gateways import Gateway
from .conftest import Visit

WEB = Path(portico.__file__).parent / "web"
SCRIPTS = sorted(path for path in WEB.rglob("*.js") if path.parent.name != "texts")
LANGUAGES = sorted(path.stem for path in (WEB / "js" / "texts").iterdir())


def test_policy_is_strict() -> None:
    assert "unsafe" not in PAGE_POLICY
    assert PAGE_POLICY.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in PAGE_POLICY


def test_every_file_is_served_with_a_tag(gateway: Gateway) -> None:
    with gateway.client(trust_env=False) as client:
        for address in ("/", "/config.js", *ASSETS):
            answer = client.get(address)
            assert answer.status_code == 200, address
            assert answer.headers["Content-Security-Policy"] == PAGE_POLICY
            assert answer.headers["Cache-Control"] == "no-cache"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            again = client.get(address, headers={"If-None-Match": answer.headers["ETag"]})
            assert (again.status_code, again.content) == (304, b"")
        assert client.get("/js/nothing.js").status_code == 404
        assert client.get("/index.html").status_code == 404


def test_client_id_and_secret_stand_in_the_script(gateway: Gateway) -> None:
    answer = httpx2.get(f"{gateway.url}/config.js", trust_env=False)
    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
    properties = (gateway.home / "application.properties").read_text()
    for word, name in (("id", "clientId"), ("secret", "clientSecret")):
        value = re.findall(rf"^security\.client-{word}=(.*)$", properties, re.MULTILINE)[0]
        assert f'export const {name} = "{value}";' in answer.text


def test_nothing_reads_markup_from_data() -> None:
    for script in SCRIPTS:
        forbidden = (
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|srcdoc"
        )
        assert not re.search(forbidden, script.read_text()), script.name
    page = (WEB / "index.html").read_text()
    assert not re.search(r"\son\w+=|style=|<style|javascript:|https?://", page)
    assert re.findall(r"<script[^>]*>(.*?)</script>", page) == [""]


def test_every_module_is_preloaded() -> None:
    preloaded = re.findall(r'rel="modulepreload" href="([^"]+)"', (WEB / "index.html").read_text())
    modules = {f"/js/{path.name}" for path in SCRIPTS} - {"/js/main.js"}
    assert set(preloaded) == modules | {"/config.js"}


def test_modules_are_small() -> None:
    assert [path.name for path in SCRIPTS if len(path.read_text().splitlines()) > 250] == []


@pytest.fixture
def page(visit: Visit, gateway: Gateway) -> Page:
    return visit(gateway).page


def test_every_language_says_the_same(page: Page) -> None:
    texts = {
        code: page.evaluate(f"async () => (await import('/js/texts/{code}.js')).default")
        for code in LANGUAGES
    }
    assert LANGUAGES == ["de", "en", "es", "fr", "ja"]
    used = set(re.findall(r'"(\w+)"', "".join(path.read_text() for path in SCRIPTS)))
    for key, english in texts["en"].items():
        assert key in used or re.match(r"(state|column)_|\w+Count$", key), f"{key} is not used"
        for code in LANGUAGES:
            text = texts[code].get(key)
            assert type(text) is type(english), (code, key)
            forms = text.values() if isinstance(text, dict) else [text]
            wanted = placeholders(english["other"] if isinstance(english, dict) else english)
            for form in forms:
                assert form.strip()
                assert placeholders(form) <= wanted, (code, key)
            assert placeholders(text["other"] if isinstance(text, dict) else text) == wanted, (code, key)
    assert len({tuple(text) for text in texts.values()}) == 1


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))
