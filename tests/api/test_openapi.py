import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
import schemathesis

from portico.api.openapi import document
from portico.api.problems import PROBLEM_TYPES
from portico.api.requests import FILESYSTEM
from portico.api.routes import ONE_OF_MANY, ROUTES
from portico.api.shares import LINKS
from portico.api.tus import UPLOADS

from .gateways import Gateway

METHODS = {"get", "head", "post", "put", "delete", "patch", "options", "trace"}
INTERFACE = ("/backend/", "/healthz", "/readyz")
"""Other addresses are the page and what it loads, which nobody programs against."""


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            if method in METHODS:
                yield path, method, operation


def references(node: Any) -> Iterator[str]:
    match node:
        case dict():
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            for value in node.values():
                yield from references(value)
        case list():
            for value in node:
                yield from references(value)


async def test_the_document_is_served(gateway: Gateway) -> None:
    response = await gateway.client.get("/backend/openapi.json")
    assert response.headers["Content-Type"] == "application/json"
    assert response.json() == document()


def test_the_document_is_valid() -> None:
    assert document()["openapi"].startswith("3.1.")
    schemathesis.openapi.from_dict(document()).validate()


def test_the_validator_is_awake() -> None:
    broken = {**document(), "paths": {"/x": {"get": {"responses": "none"}}}}
    with pytest.raises(Exception, match="none"):
        schemathesis.openapi.from_dict(broken).validate()


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))


def test_every_route_is_described_and_every_description_is_a_route() -> None:
    served = {
        (path, method.lower())
        for path, methods in [
            *ROUTES.items(),
            *((f"{above}/{{id}}", methods) for above, methods in ONE_OF_MANY.items()),
        ]
        if path.startswith(INTERFACE)
        for method in methods
    }
    # HEAD comes with every GET; where it has nothing of its own to say it is not described.
    described = {
        (path.removesuffix("/{path}"), method)
        for path, method, _ in operations()
        if not path.startswith((f"{UPLOADS}/", f"{LINKS}/"))  # not found by the table
    }
    assert described <= served
    assert {(path, method) for path, method in served if method != "head"} <= described
    assert (FILESYSTEM, "head") in described


def test_every_code_is_described() -> None:
    problem = document()["components"]["schemas"]["Problem"]
    assert problem["properties"]["code"]["enum"] == list(PROBLEM_TYPES)


def test_every_example_of_a_problem_has_its_status() -> None:
    shown = set()
    for _, _, operation in operations():
        for status, answer in operation["responses"].items():
            content = answer.get("content", {}).get("application/problem+json", {})
            for code, example in content.get("examples", {}).items():
                assert str(PROBLEM_TYPES[code].status) == status
                assert example["value"]["code"] == code
                shown.add(code)
    assert shown == PROBLEM_TYPES.keys()


def test_every_reference_leads_somewhere() -> None:
    schemas = document()["components"]["schemas"]
    found = set(references(document()))
    assert found
    assert {reference.removeprefix("#/components/schemas/") for reference in found} <= schemas.keys()


def test_every_path_parameter_is_described() -> None:
    for path, item in document()["paths"].items():
        wanted = set(re.findall(r"{(\w+)}", path))
        assert {each["name"] for each in item.get("parameters", [])} == wanted


# The page


class Links(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.styled = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("href", "src", "action", "srcset", "data", "poster"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")
            self.styled |= name == "style" or name.startswith("on")


@pytest.fixture
async def docs(gateway: Gateway) -> Links:
    return Links((await gateway.client.get("/backend/docs")).text)


async def test_the_page_needs_nothing_from_elsewhere(gateway: Gateway, docs: Links) -> None:
    assert docs.links
    assert all(re.match(r"#|/(?!/)", link) for link in docs.links)
    assert not docs.tags & {"script", "style", "iframe", "object", "embed", "base", "form"}
    assert not docs.styled
    for link in {link for link in docs.links if link.startswith("/")}:
        assert (await gateway.client.get(link)).status_code == 200, link


async def test_every_link_within_the_page_leads_somewhere(docs: Links) -> None:
    anchors = [link.removeprefix("#") for link in docs.links if link.startswith("#")]
    assert anchors
    assert set(anchors) <= set(docs.ids)
    assert len(docs.ids) == len(set(docs.ids))


async def test_the_page_explains_every_code_that_a_problem_links_to(docs: Links) -> None:
    assert PROBLEM_TYPES.keys() <= set(docs.ids)
