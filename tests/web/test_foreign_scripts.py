"""A script that got into the page cannot run a user's file: the policy and the gateway both prevent it."""

from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Page

from ..gateways import FILES, Gateway
from .conftest import OpenPage

SCRIPT = """
globalThis.ran = true;
if (!globalThis.document) globalThis.postMessage?.("ran");
globalThis.onconnect = event => event.ports[0].postMessage("ran");
export default "ran";
"""
CLASSIC = SCRIPT.replace('export default "ran";', "")

WAYS = {
    "script": ("classic.js", "element(Object.assign(document.createElement('script'), {src: address}))"),
    "module": ("module.js", "element(Object.assign(document.createElement('script'), {src: address, type: 'module'}))"),
    "preload": (
        "module.js",
        "element(Object.assign(document.createElement('link'), {href: address, rel: 'modulepreload'}))",
    ),
    "import": ("module.js", "import(address).then(() => 'ran', error => 'refused')"),
    "worker": ("classic.js", "worker(() => new Worker(address))"),
    "module worker": ("module.js", "worker(() => new Worker(address, {type: 'module'}))"),
    "shared worker": ("classic.js", "worker(() => new SharedWorker(address), true)"),
    "service worker": ("classic.js", "navigator.serviceWorker.register(address).then(() => 'ran', error => 'refused')"),
    "style": (
        "style.css",
        "element(Object.assign(document.createElement('link'), {href: address, rel: 'stylesheet'}))",
    ),
}

INJECTED = """
([address, way]) => {
  const element = made => new Promise(done => {
    made.onload = () => done("ran");
    made.onerror = () => done("refused");
    document.head.append(made);
  });
  const worker = (make, shared) => new Promise(done => {
    try {
      const made = make();
      made.onerror = () => done("refused");
      (shared ? made.port : made).onmessage = () => done("ran");
    } catch { done("refused"); }
  });
  return eval(way);
}
"""


def ticket(gateway: Gateway, name: str) -> str:
    """An address from which a browser can fetch this file of `web`."""
    with gateway.signed_in(trust_env=False) as client:
        path = f"{FILES}/{quote(name)}"
        return f"{path}?ticket={client.post(f'{path}?action=TICKET').json()['ticket']}"


@pytest.fixture
def files(root: Path) -> None:
    (root / "classic.js").write_text(CLASSIC)
    (root / "module.js").write_text(SCRIPT)
    (root / "style.css").write_text("body { display: none }")


def inject(page: Page, address: str, way: str) -> Any:
    return page.evaluate(INJECTED, [address, way])


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("policy", [True, False], ids=["policy", "server"])
def test_a_users_file_does_not_run_in_the_page(open_page: OpenPage, gateway: Gateway, policy: bool) -> None:
    """With the page's policy, and without it: then the gateway refuses."""
    user = open_page(gateway, bypass_csp=not policy)
    statuses: list[int] = []
    user.page.context.on("response", lambda answer: statuses.append(answer.status) if "ticket=" in answer.url else None)
    for way, (name, code) in WAYS.items():
        assert inject(user.page, ticket(gateway, name), code) == "refused", way
        assert user.page.evaluate("globalThis.ran") is None, way
        # The driver does not see the browser's own requests for workers.
        assert set(statuses) <= (set() if policy else {403}), way
    user.noise.clear()  # the browser logs every refusal


def test_the_ways_run_what_is_the_pages_own(open_page: OpenPage, gateway: Gateway) -> None:
    """The test above tests something: the same code runs when the response may run."""
    user = open_page(gateway, bypass_csp=True)
    scripts = {"/classic-probe.js": CLASSIC, "/module-probe.js": SCRIPT}
    user.page.context.route(
        "**/*-probe.js",
        lambda route: route.fulfill(body=scripts[urlsplit(route.request.url).path], content_type="text/javascript"),
    )
    for way in ("script", "module", "import", "worker", "module worker"):
        name, code = WAYS[way]
        address = "/classic-probe.js" if name == "classic.js" else "/module-probe.js"
        assert inject(user.page, address, code) == "ran", way
    user.noise.clear()


def test_a_picture_may_be_shown_by_its_ticket(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    (root / "dot.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"/>')
    user = open_page(gateway)
    way = "element(Object.assign(document.createElement('img'), {src: address}))"
    assert inject(user.page, ticket(gateway, "dot.svg"), way) == "ran"
