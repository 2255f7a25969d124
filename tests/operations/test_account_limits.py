"""Expired accounts and forbidden addresses, as every front end meets them."""

import asyncio
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

import pytest

from portico.accounts.api_keys import KeyScope
from portico.model.errors import AddressNotAllowed, NotSignedIn, PorticoError, WrongPassword
from portico.model.rights import Right
from portico.operations.actors.request_context import RequestContext

from .test_scope import Acting, guest_of, impatient, signed_in, ticket_for
from .test_second_front_end import ADDRESS, PASSWORD, Installation, at, installation

__all__ = ["impatient", "installation"]

ELSEWHERE = [ip_network("203.0.113.0/24")]
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
Limit = dict[str, Any]
LIMITS: list[tuple[Limit, type[PorticoError]]] = [
    ({"expires_at": LONG_AGO}, NotSignedIn),
    ({"addresses": ELSEWHERE}, AddressNotAllowed),
]


@pytest.fixture
async def acting(installation: Installation) -> dict[str, Acting]:
    await installation.users.change("web", rights=frozenset(Right))
    (installation.files / "a.txt").write_bytes(b"public")
    user = await signed_in(installation)
    text = (await user.gateway.operations(await user.actor()).account.add_key(KeyScope("key"))).text
    authentication = user.gateway.authentication
    return {
        "token": user,
        "key": Acting(installation, lambda context: authentication.with_token(context, text)),
        "ticket": await ticket_for(user, "/a.txt", installation, recursive=False),
        "password": Acting(installation, lambda context: authentication.with_password(context, "web", PASSWORD)),
        "guest": await guest_of(installation, "/a.txt"),
    }


@pytest.mark.parametrize(("limit", "error"), LIMITS, ids=["expired", "address"])
async def test_no_credential_is_accepted(
    installation: Installation, acting: dict[str, Acting], limit: Limit, error: type[PorticoError]
) -> None:
    guest = acting.pop("guest")
    await installation.users.change("web", **limit)
    installation.forget()
    for name, each in acting.items():
        expected = WrongPassword if (name, error) == ("password", NotSignedIn) else error
        with pytest.raises(expected):
            await each.actor()
    if error is AddressNotAllowed:
        await guest.actor()  # another person
    else:
        with pytest.raises(NotSignedIn):
            await guest.actor()


@pytest.mark.parametrize(("limit", "error"), LIMITS, ids=["expired", "address"])
@pytest.mark.parametrize("who", ["token", "key"])
async def test_work_under_way_ends(
    installation: Installation, acting: dict[str, Acting], limit: Limit, error: type[PorticoError], who: str
) -> None:
    (installation.files / "large").write_bytes(b"")
    with open(installation.files / "large", "r+b") as file:
        file.truncate(2**32)
    async with acting[who].request() as operations:
        download = await operations.files.read(at("/large"))
        chunks = aiter(download.chunks)
        await anext(chunks)
        await installation.users.change("web", **limit)

        async def read_on() -> None:
            while True:
                await anext(chunks)
                await asyncio.sleep(0)

        with pytest.raises(error):
            await asyncio.wait_for(read_on(), 10)
        await download.chunks.aclose()


async def test_an_invitation_is_accepted_only_where_the_account_may_be_used(installation: Installation) -> None:
    authentication = installation.front_end.gateway.authentication
    token = (await authentication._invitations.make("web")).token
    await installation.users.change("web", addresses=ELSEWHERE)
    for address, error in ((ADDRESS, AddressNotAllowed), ("203.0.113.9", None)):
        context = RequestContext("request", address)
        accepting = authentication.accept_invitation(context, token, "battery staple 17")
        if error:
            with pytest.raises(error):
                await accepting
        else:
            await accepting


async def test_the_audit_log_has_the_reason(installation: Installation) -> None:
    sign_in = installation.front_end.gateway.authentication.sign_in

    await installation.users.change("web", addresses=ELSEWHERE)
    with pytest.raises(AddressNotAllowed):
        await sign_in(RequestContext("request", ADDRESS), "web", PASSWORD)
    await installation.users.change("web", expires_at=LONG_AGO)
    with pytest.raises(WrongPassword):
        await sign_in(RequestContext("request", ADDRESS), "web", PASSWORD)
    outcomes = [line["outcome"] for line in installation.lines if line["action"] == "sign-in"]
    assert outcomes == ["address-not-allowed", "expired"]
