"""One's own account by REST: the password, sessions, and the invitation to set a first password."""

import io
from typing import Any

import httpx2
import pytest

from portico.accounts.passwords import Passwords
from portico.accounts.throttle import CREDENTIAL_FAILURES, PAIR_FAILURES
from portico.accounts.users import Invitations
from portico.api.account import ACCOUNT, INVITATION, INVITATION_PASSWORD, PASSWORD, SESSIONS
from portico.store.database import Database

from .conftest import Clock, OpenGateway
from .gateways import CLIENT, Gateway
from .gateways import PASSWORD as OLD

NEW = "a walk in the woods"


async def signed_in(gateway: Gateway, agent: str = "curl/8", **form: str) -> dict[str, str]:
    fields = {"grant_type": "password", "username": "web", "password": OLD, **form}
    answer = await gateway.client.post("/backend/login", data=fields, auth=CLIENT, headers={"User-Agent": agent})
    assert answer.status_code == 200, answer.text
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


async def change(gateway: Gateway, headers: dict[str, str], old: str, new: str) -> httpx2.Response:
    return await gateway.client.post(PASSWORD, headers=headers, json={"oldPassword": old, "newPassword": new})


async def test_another_password_ends_all_other_sessions(open_gateway: OpenGateway, log_stream: io.StringIO) -> None:
    gateway = await open_gateway(**{"audit.file": "audit.log"})
    here, there = await signed_in(gateway), await signed_in(gateway, "Mozilla/5.0 (X11) Firefox/140.0")
    facts = (await gateway.client.get(ACCOUNT, headers=here)).json()
    assert facts == {
        "username": "web",
        "rights": ["list", "download", "upload", "overwrite"],
        "createdAt": facts["createdAt"],
        "passwordChangedAt": facts["createdAt"],
        "maxFileSize": None,
    }
    for old, new, status, code in (
        ("wrong horse", NEW, 403, "wrong-password"),
        (OLD, "short", 400, "weak-password"),
        (OLD, "Sunshine2026!", 400, "weak-password"),
        (OLD, "web", 400, "weak-password"),
    ):
        answer = await change(gateway, here, old, new)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (await change(gateway, here, OLD, NEW)).status_code == 204
    assert (await gateway.client.get("/backend/session", headers=here)).status_code == 200
    assert (await gateway.client.get("/backend/session", headers=there)).status_code == 401
    assert (await gateway.login()).status_code == 400
    await signed_in(gateway, password=NEW)
    facts = (await gateway.client.get(ACCOUNT, headers=await gateway.sign_in())).json()
    assert facts["passwordChangedAt"] > facts["createdAt"]
    written = log_stream.getvalue() + (gateway.settings.home / "audit.log").read_text()
    assert '"action":"password.change"' in written
    assert OLD not in written
    assert NEW not in written


async def test_the_old_password_cannot_be_guessed(gateway: Gateway) -> None:
    here = await gateway.sign_in()
    answers = [(await change(gateway, here, "wrong horse", NEW)).status_code for _ in range(PAIR_FAILURES + 1)]
    assert answers == [403] * PAIR_FAILURES + [429]
    assert (await gateway.client.get("/backend/session", headers=here)).status_code == 200


async def test_sessions_are_shown_and_ended_one_by_one_or_all(gateway: Gateway) -> None:
    here = await signed_in(gateway, "Portico/1.2 (laptop)")
    one, two = await signed_in(gateway, "one" * 200), await gateway.sign_in()
    other = await gateway.sign_in("reader")

    async def shown() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await gateway.client.get(SESSIONS, headers=here)).json()["content"]
        return found

    async def works(headers: dict[str, str]) -> bool:
        return (await gateway.client.get("/backend/session", headers=headers)).status_code == 200

    sessions = await shown()
    assert len(sessions) == 3
    [mine] = [each for each in sessions if each["current"]]
    assert (mine["device"], mine["address"]) == ("Portico/1.2 (laptop)", "127.0.0.1")
    assert mine["createdAt"] == mine["lastUsedAt"]
    [long] = [each for each in sessions if each["device"] and each["device"].startswith("one")]
    assert len(long["device"]) == 256
    for headers, status in ((other, 404), (here, 204), (here, 404)):
        answer = await gateway.client.delete(f"{SESSIONS}/{long['id']}", headers=headers)
        assert answer.status_code == status
    assert [await works(each) for each in (here, one, two, other)] == [True, False, True, True]
    assert (await gateway.client.delete(SESSIONS, headers=here)).status_code == 204
    assert [await works(each) for each in (here, one, two, other)] == [True, False, False, True]
    assert [each["current"] for each in await shown()] == [True]


async def test_an_invitation_sets_a_password_once(
    open_gateway: OpenGateway, clock: Clock, log_stream: io.StringIO
) -> None:
    gateway = await open_gateway(**{"audit.file": "audit.log"})
    database, passwords = Database(gateway.settings.database_url), Passwords()
    invitations = Invitations(database, passwords)
    try:
        await gateway.users.add("nadia", None, root="/web")
        assert (await gateway.login(username="nadia", password="correct horse")).status_code == 400
        first, second = await invitations.make("nadia"), await invitations.make("NADIA")

        async def accept(token: str, password: str = NEW) -> int:
            body = {"token": token, "password": password}
            return (await gateway.client.post(INVITATION_PASSWORD, json=body)).status_code

        assert await accept(first.token) == 404  # replaced
        answer = await gateway.client.post(INVITATION, json={"token": second.token})
        assert (answer.status_code, answer.json()["username"]) == (200, "nadia")
        assert await accept(second.token, "nadia2026") == 400
        assert await accept(second.token) == 204
        assert await accept(second.token, "another walk") == 404
        assert (await gateway.login(username="nadia", password=NEW)).status_code == 200
        late, disabled = await invitations.make("nadia"), await invitations.make("reader")
        await gateway.users.change("reader", disabled=True)
        await gateway.users.change("reader", disabled=False)
        assert await accept(disabled.token) == 404
        clock.advance(7 * 86400)
        assert await accept(late.token) == 404
        answers = {await accept("x" * 43) for _ in range(CREDENTIAL_FAILURES + 3)}
        assert answers == {404, 429}
        written = log_stream.getvalue() + (gateway.settings.home / "audit.log").read_text()
        assert '"action":"invitation.accept"' in written
        assert second.token not in written
        assert NEW not in written
    finally:
        passwords.close()
        await database.close()


# The page's session, in a cookie


OWN = {"X-Portico-Session": "cookie", "Sec-Fetch-Site": "same-origin"}


async def post(gateway: Gateway, headers: dict[str, str], **form: str) -> httpx2.Response:
    return await gateway.client.post("/backend/login", data=form, auth=CLIENT, headers=headers)


async def test_the_pages_refresh_token_is_in_a_cookie(open_gateway: OpenGateway, clock: Clock) -> None:
    gateway = await open_gateway(**{"server.public-url": "https://files.example.com"})
    plain = await gateway.login()
    assert set(plain.json()) == {"access_token", "token_type", "expires_in", "refresh_token", "scope"}
    assert "portico-session" not in str(plain.headers.get_list("Set-Cookie"))
    password = {"grant_type": "password", "username": "web", "password": OLD}
    answer = await post(gateway, OWN, **password)
    assert set(answer.json()) == {"access_token", "token_type", "expires_in", "scope", "username"}
    [cookie] = [each for each in answer.headers.get_list("Set-Cookie") if "portico-session" in each]
    assert {"HttpOnly", "SameSite=strict", "Path=/backend/login"} <= set(cookie.split("; "))
    token = cookie.partition("=")[2].partition(";")[0]

    async def refreshed(headers: dict[str, str], **form: str) -> httpx2.Response:
        gateway.client.cookies.clear()
        sent = {"Cookie": f"portico-session={token}", **headers}
        return await post(gateway, sent, grant_type="refresh_token", **form)

    # Several tabs at once, each by itself.
    for _ in range(3):
        again = await refreshed(OWN)
        assert (again.status_code, again.json()["username"]) == (200, "web")
        assert "refresh_token" not in again.json()
    for origin in ("http://gateway.test", "https://files.example.com"):
        assert (await refreshed({"X-Portico-Session": "cookie", "Origin": origin})).status_code == 200
    for headers, status in (
        ({}, 400),  # the cookie alone is nothing
        ({"X-Portico-Session": "yes"}, 400),
        ({"X-Portico-Session": "cookie"}, 403),
        ({**OWN, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**OWN, "Sec-Fetch-Site": "same-site"}, 403),
        ({**OWN, "Sec-Fetch-Site": "none"}, 403),
        ({"X-Portico-Session": "cookie", "Origin": "https://evil.example"}, 403),
        ({"X-Portico-Session": "cookie", "Origin": "null"}, 403),
        ({"X-Portico-Session": "cookie", "Origin": ""}, 403),
        ({"Origin": "https://evil.example"}, 400),
    ):
        assert (await refreshed(headers)).status_code == status, headers
    assert (await refreshed(OWN, refresh_token=token)).status_code == 400
    bearer = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    out = await gateway.client.post("/backend/logout", headers={**OWN, **bearer})
    assert out.status_code == 204
    assert "portico-session=" in out.headers["Set-Cookie"]
    assert "Max-Age=0" in out.headers["Set-Cookie"]
    ended = await refreshed(OWN)
    assert (ended.status_code, ended.json()["error"]) == (400, "invalid_grant")
    assert "Max-Age=0" in ended.headers["Set-Cookie"]


async def test_no_other_origin_may_ask_for_the_cookie(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"server.cors-origins": "https://app.example.com"})
    allowed = await gateway.client.options(
        "/backend/login",
        headers={
            "Origin": "https://app.example.com",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "x-portico-session",
        },
    )
    assert "x-portico-session" not in allowed.headers.get("Access-Control-Allow-Headers", "").lower()
    assert "Access-Control-Allow-Credentials" not in allowed.headers


@pytest.mark.parametrize("secure", [True, False])
async def test_the_cookie_is_secure_over_tls_or_behind_a_proxy(open_gateway: OpenGateway, secure: bool) -> None:
    gateway = await open_gateway(**({"server.behind-proxy": "127.0.0.1"} if secure else {}))
    answer = await post(gateway, OWN, grant_type="password", username="web", password=OLD)
    [cookie] = [each for each in answer.headers.get_list("Set-Cookie") if "portico-session" in each]
    assert ("Secure" in cookie.split("; ")) is secure
