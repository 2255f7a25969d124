from datetime import UTC, datetime

import pytest

from portico.accounts.mounts import owner_of
from portico.api.account import KEYS
from portico.model.paths import Path
from portico.model.rights import Right

from .conftest import OWN_GATEWAY, SHARES_GATEWAY, Clock, OpenGateway
from .gateways import Gateway, address

pytestmark = SHARES_GATEWAY


async def test_the_session_says_who_is_signed_in(gateway: Gateway) -> None:
    response = await gateway.client.get("/backend/session", headers=await gateway.sign_in("reader"))
    assert response.status_code == 200
    assert response.headers["Cache-Control"] == "no-store"
    body = response.json()
    assert body.keys() == {"username", "rights", "mounts", "expiresAt"}
    assert (body["username"], body["rights"]) == ("reader", ["list", "download"])
    assert body["mounts"] == [{"path": "/", "rights": ["list", "download"]}]
    assert body["expiresAt"].endswith("Z")
    assert datetime.fromisoformat(body["expiresAt"]) > datetime.now(UTC)


async def test_the_session_lists_the_mounts(gateway: Gateway) -> None:
    mounts = {
        "/team": "list download upload delete",
        "/team/plans": "list replace delete",
        "/hidden": "",
        "/a/b": "list",
        "/team/closed": "",
        "/team/closed/in/open": "download",
    }
    await gateway.mounts.remove(owner_of("web"), Path())
    for path, rights in mounts.items():
        await gateway.mount(path, rights)
    headers = await gateway.sign_in()
    body = (await gateway.client.get("/backend/session", headers=headers)).json()
    assert body["mounts"] == [
        {"path": "/a/b", "rights": ["list"]},
        {"path": "/team", "rights": ["list", "download", "upload", "delete"]},
        # It only leads to another folder.
        {"path": "/team/closed", "rights": ["list"]},
        {"path": "/team/closed/in/open", "rights": ["download"]},
        {"path": "/team/plans", "rights": ["list", "overwrite"]},
    ]
    assert body["rights"] == ["list", "download", "upload", "overwrite"]
    assert (await gateway.login()).json()["scope"] == "list download upload overwrite"
    # The paths of a key start at its folder, and what it may not do it does not name.
    scope = {"name": "ci", "folder": "/team", "rights": ["download", "delete"]}
    key = (await gateway.client.post(KEYS, headers=headers, json=scope)).json()["key"]
    body = (await gateway.client.get("/backend/session", headers={"Authorization": f"Bearer {key}"})).json()
    assert body["rights"] == ["download", "delete"]
    assert body["mounts"] == [
        {"path": "/", "rights": ["download", "delete"]},
        {"path": "/closed", "rights": ["list"]},
        {"path": "/closed/in/open", "rights": ["download"]},
        {"path": "/plans", "rights": ["delete"]},
    ]


@OWN_GATEWAY
async def test_the_session_says_where_files_are_kept_if_that_is_wanted(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"page.show-storage": "true"})
    body = (await gateway.client.get("/backend/session", headers=await gateway.sign_in("reader"))).json()
    assert body["mounts"] == [{"path": "/", "rights": ["list", "download"], "connection": "local"}]


async def test_rights_that_change_are_seen_in_the_next_request(gateway: Gateway) -> None:
    headers = await gateway.sign_in()
    await gateway.users.change("web", rights={Right.UPLOAD})
    assert (await gateway.client.get("/backend/session", headers=headers)).json()["rights"] == ["upload"]


async def test_logging_out_ends_the_token_and_its_refresh_tokens(gateway: Gateway) -> None:
    pair = (await gateway.login()).json()
    headers = {"Authorization": f"Bearer {pair['access_token']}"}
    response = await gateway.client.post("/backend/logout", headers=headers)
    assert (response.status_code, response.content) == (204, b"")
    assert (await gateway.client.get("/backend/session", headers=headers)).status_code == 401
    again = await gateway.login(grant_type="refresh_token", refresh_token=pair["refresh_token"])
    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")


async def test_logging_out_ends_no_other_session(gateway: Gateway) -> None:
    one, other = await gateway.sign_in(), await gateway.sign_in()
    await gateway.client.post("/backend/logout", headers=one)
    assert (await gateway.client.get("/backend/session", headers=other)).status_code == 200


@OWN_GATEWAY
async def test_a_token_expires(gateway: Gateway, clock: Clock) -> None:
    headers = await gateway.sign_in()
    clock.advance(3599)
    assert (await gateway.client.get("/backend/session", headers=headers)).status_code == 200
    clock.advance(1)
    assert (await gateway.client.get("/backend/session", headers=headers)).status_code == 401


@pytest.mark.parametrize("change", ["disabled", "deleted", "new password"])
@OWN_GATEWAY
async def test_a_session_ends_within_a_second_of_its_user(gateway: Gateway, clock: Clock, change: str) -> None:
    headers = await gateway.sign_in()
    assert (await gateway.client.get(address(""), headers=headers)).status_code == 200
    match change:
        case "disabled":
            await gateway.users.change("web", disabled=True)
        case "deleted":
            await gateway.users.delete("web")
        case "new password":
            await gateway.users.set_password("web", "battery staple")
    clock.advance(1)
    for path in ("/backend/session", address("")):
        response = await gateway.client.get(path, headers=headers)
        assert (response.status_code, response.json()["code"]) == (401, "not-signed-in")


TOKEN = "t" * 43


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Authorization", "")],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer ")],
        [("Authorization", TOKEN)],
        [("Authorization", f"Bearer {TOKEN}")],
        [("Authorization", f"Bearer {'x' * 2**16}")],
        [("Authorization", "Bearer \xff\xfe")],
        [("Authorization", "Basic d2ViOmNvcnJlY3QgaG9yc2U=")],
        [("Authorization", f"Token {TOKEN}")],
    ],
)
@pytest.mark.parametrize("target", [b"/backend/session", b"/backend/1.0.0/filesystem/a"])
async def test_a_request_without_a_good_token_is_refused(
    gateway: Gateway, headers: list[tuple[str, str]], target: bytes
) -> None:
    answer = await gateway.raw("GET", target, headers)
    assert (answer.status, answer.json()["code"]) == (401, "not-signed-in")
    assert answer.header("WWW-Authenticate").startswith("Bearer ")
    assert TOKEN not in answer.body.decode()


async def test_an_altered_token_is_refused(gateway: Gateway) -> None:
    good = (await gateway.sign_in())["Authorization"]
    for altered in (good[:-1], good + "A", good[:-1] + ("A" if good[-1] != "A" else "B"), good.swapcase()):
        answer = await gateway.raw("GET", b"/backend/session", [("Authorization", altered)])
        assert answer.status == 401, altered


async def test_a_token_in_the_query_does_not_count(gateway: Gateway) -> None:
    token = (await gateway.sign_in())["Authorization"].removeprefix("Bearer ")
    for name in ("access_token", "token", "ticket"):
        response = await gateway.client.get(address("a.txt"), params={name: token})
        assert response.status_code == 401
        assert token not in response.text


async def test_two_authorization_headers_are_refused(gateway: Gateway) -> None:
    good = (await gateway.sign_in())["Authorization"]
    for other in (good, "Bearer other", "Basic eDp5"):
        for pair in ([good, other], [other, good]):
            answer = await gateway.raw("GET", b"/backend/session", [("Authorization", each) for each in pair])
            assert (answer.status, answer.json()["code"]) == (400, "invalid-request")


async def test_the_scheme_is_read_without_case(gateway: Gateway) -> None:
    headers = {"Authorization": (await gateway.sign_in())["Authorization"].replace("Bearer", "bearer")}
    assert (await gateway.client.get("/backend/session", headers=headers)).status_code == 200
