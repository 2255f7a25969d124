import io
import json
import re
from base64 import b64encode
from ipaddress import ip_network
from itertools import product
from typing import Any

import httpx2
import pytest
from sqlalchemy import select

from portico.accounts.passwords import Passwords
from portico.accounts.throttle import ADDRESS_FAILURES, CREDENTIAL_FAILURES, PAIR_FAILURES, attempt_of
from portico.api.login import DEVICE_COOKIE
from portico.store.sessions import GRACE_SECONDS
from portico.store.tables import users

from .conftest import Clock, OpenGateway
from .gateways import CLIENT, PASSWORD, Gateway

FORM = {"grant_type": "password", "username": "web", "password": PASSWORD}
BASIC = "Basic " + b64encode(":".join(CLIENT).encode()).decode()
URLENCODED = "application/x-www-form-urlencoded"


def assert_refused(response: httpx2.Response, status: int, error: str) -> None:
    """The shape of RFC 6749, section 5.2."""
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["X-Request-Id"]
    body = response.json()
    assert body.keys() == {"error", "error_description"}
    assert body["error"] == error
    assert body["error_description"]


async def test_the_right_credentials_give_tokens(gateway: Gateway) -> None:
    response = await gateway.login()
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    body = response.json()
    assert body.keys() == {"access_token", "token_type", "expires_in", "refresh_token", "scope"}
    assert (body["token_type"], body["expires_in"]) == ("Bearer", 3600)
    assert body["scope"] == "list download upload overwrite"
    headers = {"Authorization": f"Bearer {body['access_token']}"}
    assert (await gateway.client.get("/backend/session", headers=headers)).json()["username"] == "web"


async def test_the_scope_is_the_rights_of_the_user(gateway: Gateway) -> None:
    assert (await gateway.login(username="reader")).json()["scope"] == "list download"


async def test_the_lifetimes_are_settings(open_gateway: OpenGateway, clock: Clock) -> None:
    gateway = await open_gateway(**{"security.token-lifetime": "5m", "security.refresh-lifetime": "10m"})
    pair = (await gateway.login()).json()
    assert pair["expires_in"] == 300
    clock.advance(601)
    assert_refused(
        await gateway.login(grant_type="refresh_token", refresh_token=pair["refresh_token"]), 400, "invalid_grant"
    )


async def test_tokens_are_opaque_and_stored_nowhere_in_clear(gateway: Gateway) -> None:
    one, other = [(await gateway.login()).json() for _ in range(2)]
    tokens = [pair[kind] for pair, kind in product((one, other), ("access_token", "refresh_token"))]
    assert len(set(tokens)) == 4
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{32,}", token) for token in tokens)
    kept = b"".join(file.read_bytes() for file in gateway.settings.home.rglob("*") if file.is_file())
    assert not any(token.encode() in kept for token in tokens)


@pytest.mark.parametrize("name", ["web", "WEB", "Web"])
async def test_a_user_name_is_read_without_case(gateway: Gateway, name: str) -> None:
    assert (await gateway.login(username=name)).status_code == 200


# Refreshing


async def refresh(gateway: Gateway, token: str) -> httpx2.Response:
    form = {"grant_type": "refresh_token", "refresh_token": token}
    return await gateway.client.post("/backend/login", data=form, auth=CLIENT)


async def test_a_refresh_token_gives_a_new_pair(gateway: Gateway) -> None:
    old = (await gateway.login()).json()
    response = await refresh(gateway, old["refresh_token"])
    assert response.status_code == 200
    new = response.json()
    assert new.keys() == old.keys()
    assert {new["access_token"], new["refresh_token"]}.isdisjoint(old.values())
    headers = {"Authorization": f"Bearer {new['access_token']}"}
    assert (await gateway.client.get("/backend/session", headers=headers)).status_code == 200


async def test_a_replaced_refresh_token_works_for_a_minute(gateway: Gateway, clock: Clock) -> None:
    old = (await gateway.login()).json()["refresh_token"]
    await refresh(gateway, old)
    clock.advance(GRACE_SECONDS - 1)
    assert (await refresh(gateway, old)).status_code == 200


async def test_a_replaced_refresh_token_then_ends_its_whole_family(gateway: Gateway, clock: Clock) -> None:
    old = (await gateway.login()).json()["refresh_token"]
    new = (await refresh(gateway, old)).json()
    clock.advance(GRACE_SECONDS + 1)
    assert_refused(await refresh(gateway, old), 400, "invalid_grant")
    assert_refused(await refresh(gateway, new["refresh_token"]), 400, "invalid_grant")
    headers = {"Authorization": f"Bearer {new['access_token']}"}
    assert (await gateway.client.get("/backend/session", headers=headers)).status_code == 401


@pytest.mark.parametrize("token", ["unknown", "x" * 300, "ü", "\0"])
async def test_an_unknown_refresh_token_is_refused(gateway: Gateway, token: str) -> None:
    assert_refused(await refresh(gateway, token), 400, "invalid_grant")


async def test_an_access_token_refreshes_nothing(gateway: Gateway) -> None:
    assert_refused(await refresh(gateway, (await gateway.login()).json()["access_token"]), 400, "invalid_grant")


async def test_a_disabled_user_refreshes_nothing(gateway: Gateway) -> None:
    token = (await gateway.login()).json()["refresh_token"]
    await gateway.users.change("web", disabled=True)
    assert_refused(await refresh(gateway, token), 400, "invalid_grant")


# The client


def _basic(text: str | bytes) -> str:
    return "Basic " + b64encode(text.encode() if isinstance(text, str) else text).decode()


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Basic",
        "Basic !!!!",
        "Basic " + "\xff",
        "Basic cG9ydGljbw",
        BASIC + "=",
        _basic("no colon"),
        _basic(":"),
        _basic(f"{CLIENT[0]}:"),
        _basic(f":{CLIENT[1]}"),
        _basic(f"{CLIENT[0]}:{CLIENT[1]}x"),
        _basic(f"{CLIENT[0]}x:{CLIENT[1]}"),
        _basic(f"{CLIENT[1]}:{CLIENT[0]}"),
        _basic(b"\xff:\xff"),
        BASIC.replace("Basic", "Bearer"),
    ],
)
async def test_a_wrong_client_is_refused(gateway: Gateway, header: str | None) -> None:
    headers = [("Content-Type", URLENCODED)] + ([] if header is None else [("Authorization", header)])
    answer = await gateway.raw("POST", b"/backend/login", headers, [b"grant_type=password"])
    assert (answer.status, answer.json()["error"]) == (401, "invalid_client")
    assert answer.header("WWW-Authenticate").startswith("Basic ")
    assert answer.header("Cache-Control") == "no-store"


async def test_the_client_is_asked_before_the_user(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Passwords, "verify", never)
    response = await gateway.client.post("/backend/login", data=FORM, auth=("other", "client"))
    assert_refused(response, 401, "invalid_client")


async def test_client_credentials_in_header_and_body_at_once_are_refused(gateway: Gateway) -> None:
    for field in ("client_id", "client_secret"):
        assert_refused(await gateway.login(**{field: CLIENT[0]}), 400, "invalid_request")


async def test_two_authorization_headers_are_refused(gateway: Gateway) -> None:
    headers = [("Content-Type", URLENCODED), ("Authorization", BASIC), ("Authorization", BASIC)]
    answer = await gateway.raw("POST", b"/backend/login", headers, [b"grant_type=password"])
    assert (answer.status, answer.json()["error"]) == (400, "invalid_request")


# The form


@pytest.mark.parametrize("grant", ["client_credentials", "authorization_code", "PASSWORD", "password "])
async def test_another_grant_is_refused(gateway: Gateway, grant: str) -> None:
    assert_refused(await gateway.login(grant_type=grant), 400, "unsupported_grant_type")


@pytest.mark.parametrize("field", FORM)
async def test_every_field_must_be_there(gateway: Gateway, field: str) -> None:
    without = {name: value for name, value in FORM.items() if name != field}
    for form in (without, without | {field: ""}):
        response = await gateway.client.post("/backend/login", data=form, auth=CLIENT)
        assert_refused(response, 400, "invalid_request")
        assert field in response.json()["error_description"]


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"grant_type=password&grant_type=password&username=web&password=correct+horse", URLENCODED),
        (b"grant_type=password&username=web&username=web&password=correct+horse", URLENCODED),
        (b"grant_type=password&username=web&password=correct+horse&password=x", URLENCODED),
        (b"grant_type=password&username=web&password=%ff%fe", URLENCODED),
        (b"grant_type=password&username=web&password=\xc3\xbc", URLENCODED),
        (b"grant_type=password&username=w%00eb&password=correct+horse", URLENCODED),
        (b"grant_type=password&username=" + b"x" * 257 + b"&password=correct+horse", URLENCODED),
        (b"&".join(b"field%d=x" % n for n in range(17)), URLENCODED),
        (b'{"grant_type": "password", "username": "web", "password": "correct horse"}', "application/json"),
        (b'{"grant_type": "password", "username": "web", "password": "correct horse"}', URLENCODED),
        (b"grant_type=password&username=web&password=correct+horse", "text/plain"),
        (b"grant_type=password&username=web&password=correct+horse", ""),
        (b"", URLENCODED),
    ],
)
async def test_a_malformed_form_is_refused(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, body: bytes, content_type: str
) -> None:
    monkeypatch.setattr(Passwords, "verify", never)
    response = await gateway.client.post(
        "/backend/login", content=body, headers={"Content-Type": content_type}, auth=CLIENT
    )
    assert_refused(response, 400, "invalid_request")


async def test_fields_in_the_query_are_refused(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Passwords, "verify", never)
    for query in (FORM, {"username": "web"}):
        response = await gateway.client.post("/backend/login", data=FORM, params=query, auth=CLIENT)
        assert_refused(response, 400, "invalid_request")


async def test_parameters_of_the_content_type_do_not_matter(gateway: Gateway) -> None:
    response = await gateway.client.post(
        "/backend/login",
        data=FORM,
        headers={"Content-Type": "Application/X-WWW-Form-URLencoded; charset=UTF-8"},
        auth=CLIENT,
    )
    assert response.status_code == 200


async def test_a_huge_password_is_never_hashed(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Passwords, "_matches", never)
    assert_refused(await gateway.login(password="x" * 2**20), 400, "invalid_request")
    assert_refused(await gateway.login(password="x" * 1025), 400, "invalid_grant")


async def test_every_wrong_sign_in_gets_the_same_answer(gateway: Gateway) -> None:
    await gateway.users.change("reader", disabled=True)
    answers = [
        await gateway.login(username=name, password=password)
        for name, password in (
            ("web", "wrong horse"),
            ("nobody", PASSWORD),
            ("reader", PASSWORD),
            ("not a name!", PASSWORD),
            ("ｗｅｂ", "wrong horse"),
        )
    ]
    for answer in answers:
        assert_refused(answer, 400, "invalid_grant")
    assert len({answer.content for answer in answers}) == 1


async def test_an_unknown_user_costs_a_hash_too(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    matches = Passwords._matches

    def watched(self: Passwords, known: str, password: bytes) -> bool:
        hashed.append(known)
        return matches(self, known, password)

    monkeypatch.setattr(Passwords, "_matches", watched)
    await gateway.login(password="wrong horse")
    await gateway.login(username="nobody")
    assert len(hashed) == 2


async def test_guessing_is_throttled_and_says_for_how_long(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(PAIR_FAILURES):
        await gateway.services.gateway.authentication._sign_in._throttle.failed(attempt_of("web", "127.0.0.1"))
    monkeypatch.setattr(Passwords, "verify", never)
    response = await gateway.login()
    assert_refused(response, 429, "slow_down")
    assert int(response.headers["Retry-After"]) >= 1


async def test_made_up_refresh_tokens_are_throttled_and_valid_ones_are_not(gateway: Gateway) -> None:
    valid = (await gateway.login()).json()["refresh_token"]
    for _ in range(CREDENTIAL_FAILURES):
        await gateway.services.gateway.authentication._sign_in.credential_failed("127.0.0.1")
    answers = [await refresh(gateway, f"made up {number}") for number in range(2)]
    assert_refused(answers[0], 400, "invalid_grant")  # one is answered every few seconds
    assert_refused(answers[1], 429, "slow_down")
    assert int(answers[1].headers["Retry-After"]) >= 1
    assert (await refresh(gateway, valid)).status_code == 200
    assert (await gateway.login()).status_code == 200


# Known devices


def cookie_of(response: httpx2.Response) -> tuple[str, set[str]]:
    """The value of the only cookie that is set, and its attributes."""
    (header,) = response.headers.get_list("Set-Cookie")
    pair, *attributes = header.split("; ")
    name, _, value = pair.partition("=")
    assert name == DEVICE_COOKIE
    return value, {attribute.lower() for attribute in attributes}


async def test_the_device_cookie_goes_to_the_sign_in_alone_and_no_script_reads_it(gateway: Gateway) -> None:
    response = await gateway.login()
    value, attributes = cookie_of(response)
    assert attributes == {"httponly", "samesite=strict", "path=/backend/login", "max-age=7776000"}
    assert value not in response.text


@pytest.mark.parametrize(
    "setting", [{"server.tls": "auto"}, {"server.behind-proxy": "127.0.0.1"}], ids=["tls", "proxy"]
)
async def test_behind_tls_the_device_cookie_is_secure(open_gateway: OpenGateway, setting: dict[str, str]) -> None:
    gateway = await open_gateway(**setting)
    assert "secure" in cookie_of(await gateway.login())[1]


async def test_only_a_sign_in_with_the_right_password_sets_a_cookie(gateway: Gateway) -> None:
    wrong = await gateway.login(password="wrong horse")
    renewed = await refresh(gateway, (await gateway.login()).json()["refresh_token"])
    assert renewed.status_code == 200
    assert "Set-Cookie" not in {**wrong.headers, **renewed.headers}


async def test_a_known_device_signs_in_where_strangers_are_refused(gateway: Gateway) -> None:
    device, _ = cookie_of(await gateway.login())
    gateway.client.cookies.clear()
    await gateway.users.unlock("web")
    throttle = gateway.services.gateway.authentication._sign_in._throttle
    for number in range(ADDRESS_FAILURES):
        await throttle.failed(attempt_of(f"user{number}", "127.0.0.1"))
    for _ in range(PAIR_FAILURES):
        await throttle.failed(attempt_of("reader", "127.0.0.1"))
    assert_refused(await gateway.login(username="reader"), 429, "slow_down")
    cookie = {"Cookie": f"{DEVICE_COOKIE}={device}"}
    for username, status in (("web", 200), ("reader", 429)):
        response = await gateway.client.post(
            "/backend/login", data=FORM | {"username": username}, auth=CLIENT, headers=cookie
        )
        assert response.status_code == status


@pytest.mark.parametrize("value", ["", "x", "." * 300, "A" * 64, "\xff" * 64, "a" * 100_000])
async def test_a_device_cookie_that_is_none_changes_nothing(gateway: Gateway, value: str) -> None:
    headers = [("Authorization", BASIC), ("Content-Type", URLENCODED), ("Cookie", f"{DEVICE_COOKIE}={value}")]
    for password, status in ((PASSWORD, 200), ("wrong horse", 400)):
        body = f"grant_type=password&username=web&password={password.replace(' ', '+')}".encode()
        answer = await gateway.raw("POST", b"/backend/login", headers, [body])
        assert answer.status == status


async def test_one_browser_is_known_for_its_last_users(gateway: Gateway) -> None:
    names = ["web", "reader", "writer", "fetcher", "dropper"]
    for name in names:
        response = await gateway.login(username=name)  # the client keeps cookies, as browsers do
    value, _ = cookie_of(response)
    assert len(value.split(".")) == 4
    known = []
    for name in names:
        attempt = await recognised(gateway, name, value)
        known.append(attempt is not None)
    assert known == [False, True, True, True, True]


async def recognised(gateway: Gateway, name: str, device: str) -> bytes | None:
    sign_in = gateway.services.gateway.authentication._sign_in
    query = select(users.c.id, users.c.password_hash).where(users.c.name == name)
    async with sign_in._database.connect() as reading:
        row = (await reading.execute(query)).one()
    return sign_in._devices.known(device, row.id, row.password_hash)


async def test_throttling_counts_by_address(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(peer="192.0.2.7")
    for _ in range(PAIR_FAILURES):
        await gateway.services.gateway.authentication._sign_in._throttle.failed(attempt_of("web", "198.51.100.1"))
    assert (await gateway.login()).status_code == 200


async def test_a_sign_in_without_a_database_logs_the_cause(gateway: Gateway, log: io.StringIO) -> None:
    gateway.settings.home.joinpath("portico.db").rename(gateway.settings.home / "away.db")
    for form in (FORM, {"grant_type": "refresh_token", "refresh_token": "some token"}):
        response = await gateway.client.post("/backend/login", data=form, auth=CLIENT)
        assert_refused(response, 503, "temporarily_unavailable")
        cause = json.loads(log.getvalue().splitlines()[-2])
        assert cause["event"] == "cause"
        assert "the database" in cause["cause"]
        assert "portico.db" in cause["cause"]
        assert cause["request_id"] == response.headers["X-Request-Id"]
        assert "portico.db" not in response.text


async def test_a_get_is_refused(gateway: Gateway) -> None:
    response = await gateway.client.get("/backend/login", auth=CLIENT)
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")


async def never(*_: Any, **__: Any) -> None:
    raise AssertionError("this must not be called")


async def test_the_right_password_from_another_address(gateway: Gateway) -> None:
    pair = (await gateway.login()).json()
    await gateway.users.change("web", addresses=[ip_network("203.0.113.0/24")])
    refreshed = {"grant_type": "refresh_token", "refresh_token": pair["refresh_token"]}
    for response in (await gateway.login(), await gateway.login(**refreshed)):
        assert response.status_code == 403
        assert response.json()["code"] == "address-not-allowed"
    assert_refused(await gateway.login(password="wrong"), 400, "invalid_grant")
