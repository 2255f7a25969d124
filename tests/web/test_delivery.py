"""The page's files, and how they are served."""

import re
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect

import portico
from portico.api.assets import FOR_EVER, PAGE_POLICY
from portico.web import PREFIX
from portico.web.bundle import build

from ..gateways import Gateway, wait_until
from .conftest import OpenPage

WEB = Path(portico.__file__).parent / "web"
SCRIPTS = sorted(path for path in WEB.rglob("*.js") if path.parent.name != "messages")
LANGUAGES = sorted(path.stem for path in (WEB / "js" / "i18n" / "messages").iterdir())


def test_policy_is_strict() -> None:
    assert "unsafe" not in PAGE_POLICY
    assert PAGE_POLICY.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in PAGE_POLICY
    own, _, places = PAGE_POLICY.partition(", ")
    assert "script-src 'self';" in own
    assert places == "script-src *:*/page/; style-src *:*/page/ *:*/portico.css"


MOST_REQUESTS = 8
FETCH_ICON = "() => fetch(document.querySelector('link[rel~=icon]').href).then((answer) => answer.ok)"
"""As a browser with tabs does; one without has no use for it."""


def test_a_first_load_takes_few_requests_and_a_reload_asks_for_the_page_only(
    open_page: OpenPage, gateway: Gateway
) -> None:
    began = len(gateway.output)
    user = open_page(gateway)
    page = user.page
    expect(page.get_by_label("Username")).to_be_visible()
    assert 3 <= len(user.requests) <= MOST_REQUESTS, user.requests
    assert page.evaluate(FETCH_ICON)
    for name in ("page.js", "page.css", "icon.svg", "en.js"):
        wait_until(lambda name=name: f"/{name}" in gateway.output[began:], f"{name} was asked for")
    asked = len(gateway.output)
    page.reload()
    expect(page.get_by_label("Username")).to_be_visible()
    assert page.evaluate(FETCH_ICON)
    # The gateway's own log, because a browser counts what it finds in its cache as a request.
    wait_until(lambda: '"path":"/"' in gateway.output[asked:], "the page was asked for")
    assert PREFIX not in gateway.output[asked:]


def test_the_page_is_asked_for_again_and_its_files_never(gateway: Gateway) -> None:
    with gateway.client(trust_env=False) as client:
        for address in ("/", "/config.js", "/portico.css", "/favicon.ico", *assets(gateway)):
            answer = client.get(address)
            assert answer.status_code == 200, address
            assert answer.headers["Content-Security-Policy"] == PAGE_POLICY
            assert answer.headers["Cache-Control"] == (FOR_EVER if address.startswith(PREFIX) else "no-cache")
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            again = client.get(address, headers={"If-None-Match": answer.headers["ETag"]})
            assert (again.status_code, again.content) == (304, b"")
            plain = client.get(address, headers={"Accept-Encoding": "identity"})
            assert "Content-Encoding" not in plain.headers
            assert plain.content == answer.content
            assert plain.headers["ETag"] != answer.headers["ETag"]
        for address in ("/js/main.js", "/index.html", "/page/", "/page/page.js", "/page/0/none.js"):
            assert client.get(address).status_code == 404, address


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("gzip", True),
        ("br, GZIP ; q=0.5", True),
        ("*", True),
        ("*;q=0, gzip;q=0.001", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("*;q=0", False),
        ("identity", False),
        ("x-not-gzip", False),
        ("", False),
    ],
)
def test_the_page_is_compressed_only_for_those_who_accept_it(gateway: Gateway, accepted: str, is_packed: bool) -> None:
    with gateway.client(trust_env=False) as client:
        answer = client.get("/", headers={"Accept-Encoding": accepted})
    assert answer.headers.get("Content-Encoding") == ("gzip" if is_packed else None)
    assert b"<!doctype html>" in answer.content[:100].lower()


def test_a_file_of_another_version_is_answered_by_this_one_and_not_kept(gateway: Gateway) -> None:
    """During a rollout, the page may come from one node and its script be requested from another."""
    script = next(address for address in assets(gateway) if address.endswith("/page.js"))
    with gateway.client(trust_env=False) as client:
        other = client.get("/page/0123456789abcdef/page.js")
        assert other.status_code == 200
        assert other.headers["Cache-Control"] == "no-cache"
        assert other.content == client.get(script).content


def test_addresses_of_files_depend_on_their_content() -> None:
    one, same, other = (build({"clientId": name, "clientSecret": "s"}) for name in ("a", "a", "b"))
    assert one == same
    changed = set(one.assets) ^ set(other.assets)
    assert {address.rpartition("/")[2] for address in changed} == {"guest.js", "page.js"}
    assert one.index != other.index


def assets(gateway: Gateway) -> list[str]:
    """The addresses of the page's files, found as a browser finds them."""
    with gateway.client(trust_env=False) as client:
        found = re.findall(rf'"({PREFIX}[^"]+)"', client.get("/").text)
        script = next(address for address in found if address.endswith(".js"))
        languages = re.findall(rf'import\("({PREFIX}[^"]+)"\)', client.get(script).text)
    assert len(languages) == len(LANGUAGES)
    return found + languages


def test_the_script_contains_client_id_and_secret(gateway: Gateway) -> None:
    """Both the page's own script and the one for other clients."""
    script = next(address for address in assets(gateway) if address.endswith("/page.js"))
    answers = [httpx2.get(gateway.url + address, trust_env=False) for address in ("/config.js", script)]
    properties = (gateway.home / "application.properties").read_text()
    for word, name in (("id", "clientId"), ("secret", "clientSecret")):
        value = re.findall(rf"^security\.client-{word}=(.*)$", properties, re.MULTILINE)[0]
        for answer in answers:
            assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
            assert f'const {name} = "{value}";' in answer.text


def test_nothing_reads_markup_from_data() -> None:
    for script in SCRIPTS:
        forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|srcdoc"
        assert not re.search(forbidden, script.read_text()), script.name
    page = (WEB / "index.html").read_text()
    assert not re.search(r"\son\w+=|style=|<style|javascript:|https?://", page)
    assert re.findall(r"<script[^>]*>(.*?)</script>", page) == [""]


def test_modules_are_small() -> None:
    assert [path.name for path in SCRIPTS if len(path.read_text().splitlines()) > 250] == []


def test_every_language_says_the_same(open_page: OpenPage, gateway: Gateway) -> None:
    page = open_page(gateway).page
    texts = {
        address.rpartition("/")[2].removesuffix(".js"): page.evaluate(
            f"async () => (await import('{address}')).default"
        )
        for address in assets(gateway)
        if address.endswith(tuple(f"/{code}.js" for code in LANGUAGES))
    }
    assert LANGUAGES == ["de", "en", "es", "fr", "ja"]
    used = set(re.findall(r'"(\w+)"', "".join(path.read_text() for path in SCRIPTS)))
    for key, english in texts["en"].items():
        assert key in used or re.match(
            r"(state|column|problem|job|share|link|access|right|rewind|left|activity)_|\w+Count$", key
        ), f"{key} is not used"
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
