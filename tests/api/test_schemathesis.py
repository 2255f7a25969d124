"""The document tells the truth: requests made from it, good ones and bad ones, get the answers that it promises."""

import asyncio
import pathlib
import shutil
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks
from schemathesis.core.result import Ok
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.python import asgi

from portico.accounts.passwords import Passwords
from portico.accounts.sessions import Sessions
from portico.accounts.users import Users
from portico.api.openapi import document
from portico.server.application import create_app
from portico.settings.settings import Settings
from portico.store.database import Database

from .. import media_types  # noqa: F401
from .conftest import settings_of
from .gateways import CLIENT

FEW = settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
OPERATIONS = [
    (method.upper(), path)
    for path, methods in document()["paths"].items()
    for method in methods
    if method != "parameters"
]

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.unsupported_method,
    checks.allow_header_conformance,
    checks.missing_required_header,
]
# Left out: `positive_data_acceptance`, because no schema can say which cursors, passwords and paths are good ones;
# `negative_data_rejection`, because it counts a body beside an action, an unknown parameter and the credentials that
# it left out, but we put back, as violations (the malformed values themselves are in test_listing.py and the others);
# `ignored_auth`, because it sends requests of its own past our session (test_session.py does what it would);
# `use_after_free`, `ensure_resource_availability` and `object_level_authorization`, which look at chains of requests
# along links that the document does not have; `max_response_time`, because no test of ours asserts a time.


@dataclass(frozen=True, slots=True)
class Described:
    session: requests.Session
    credentials: dict[str, str]

    def headers_for(self, path: str) -> dict[str, str]:
        return {"Authorization": self.credentials.get(path, self.credentials[""])}


@pytest.fixture(scope="module")
def described(first_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    """A gateway that serves the requests of this file."""
    home = tmp_path_factory.mktemp("described") / "home"
    shutil.copytree(first_home, home)
    chosen = settings_of(home)
    credentials = asyncio.run(_prepare(chosen))
    edge = create_app(chosen)

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await edge({**scope, "client": ("127.0.0.1", 50000)}, receive, send)

    with asgi.get_client(app) as session:
        yield Described(session, credentials)
    asgi.shutdown_lifespans()


async def _prepare(chosen: Settings) -> dict[str, str]:
    """Something to find, and what each address takes as credentials."""
    folder = chosen.files_folder / "web" / "reports"
    folder.mkdir(parents=True)
    (folder / "2026.csv").write_bytes(b"a;b\n1;2\n")
    database, passwords = Database(chosen.database_url), Passwords()
    tokens = Sessions(database, token_lifetime=chosen.token_lifetime, refresh_lifetime=chosen.refresh_lifetime)
    web = await Users(database, passwords).get("web")
    credentials = {path: f"Bearer {(await tokens.issue(web)).access_token}" for path in ("", "/backend/logout")}
    credentials["/backend/login"] = "Basic " + b64encode(":".join(CLIENT).encode()).decode()
    passwords.close()
    await database.close()
    return credentials


@pytest.fixture(scope="module")
def whole_schema() -> Any:
    return schemathesis.openapi.from_dict(document())


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_the_document_is_kept(method: str, path: str, whole_schema: Any, described: Described) -> None:
    """The cases of an operation are made when its turn comes: `schema.parametrize()` makes them while tests are
    collected, which would take every tester as long as all these tests take together."""

    def kept(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(
            base_url="http://testserver",
            session=described.session,
            headers=described.headers_for(case.path),
            checks=CHECKS,
        )

    operation = whole_schema.include(method=method, path=path)
    (made,) = get_all_tests(schema=operation, test_func=kept, settings=FEW, given_kwargs={})
    assert isinstance(made, Ok), made
    made.ok()[1]()
