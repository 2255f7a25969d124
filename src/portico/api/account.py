"""One's own account: password, sessions, keys; invitations. Only a sign-in with a password opens an account."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from portico import timestamps
from portico.api.request_body import read_json
from portico.api.requests import actor_of, context_of, last_segment, services_of
from portico.api.schemas import JsonResponse
from portico.errors import InvalidRequest
from portico.operations.account import ApiKey, KeyScope, NewKey, OwnAccount, parse_network
from portico.paths import Path
from portico.rights import Right

ACCOUNT = "/backend/1.0.0/account"
KEYS = f"{ACCOUNT}/keys"
PASSWORD = f"{ACCOUNT}/password"
SESSIONS = f"{ACCOUNT}/sessions"
INVITATION = "/backend/1.0.0/invitation"
INVITATION_PASSWORD = f"{INVITATION}/password"


class AccountBody(msgspec.Struct):
    """The account of the signed-in user."""

    username: str
    rights: list[Right]
    createdAt: str  # noqa: N815
    passwordChangedAt: str  # noqa: N815
    maxFileSize: int | None  # noqa: N815
    """Bytes; null is no limit."""


class NewPasswordBody(msgspec.Struct, forbid_unknown_fields=True):
    oldPassword: str  # noqa: N815
    newPassword: str  # noqa: N815


class OpenSessionBody(msgspec.Struct):
    """A sign-in that has not ended. What is null is not known."""

    id: str
    device: str | None
    """What the client called itself: its User-Agent."""
    address: str | None
    createdAt: str | None  # noqa: N815
    lastUsedAt: str | None  # noqa: N815
    """When it was begun, or its token was last refreshed."""
    current: bool
    """Whether it is the session of this request."""


class OpenSessionsBody(msgspec.Struct):
    """All sessions of a user, the one that was used last first."""

    content: list[OpenSessionBody]


class InvitationTokenBody(msgspec.Struct, forbid_unknown_fields=True):
    token: str


class InvitationBody(msgspec.Struct):
    username: str
    expiresAt: str  # noqa: N815


class AcceptedInvitationBody(msgspec.Struct, forbid_unknown_fields=True):
    token: str
    password: str


class NewKeyBody(msgspec.Struct, forbid_unknown_fields=True):
    """What a key is to be for. Only the name is required."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    rights: list[Right] | None = None
    """Some of the owner's rights; by default all that the owner has now."""
    folder: str = "/"
    """A folder of the owner's tree, which is the root of all paths of the key."""
    addresses: Annotated[list[str], msgspec.Meta(max_length=32)] = []
    """Addresses and ranges, such as 10.0.0.0/8, from which the key may be used; by default from anywhere."""
    expiresAt: str | None = None  # noqa: N815
    """By default it never expires."""


class KeyBody(msgspec.Struct):
    """An API key, without the key itself."""

    id: str
    name: str
    rights: list[Right]
    folder: str
    addresses: list[str]
    createdAt: str  # noqa: N815
    expiresAt: str | None  # noqa: N815
    lastUsedAt: str | None  # noqa: N815
    """To the minute."""
    lastUsedFrom: str | None  # noqa: N815


class MadeKeyBody(KeyBody, kw_only=True):
    """A key that was just made."""

    key: str
    """The key itself: it is shown only now."""


class KeysBody(msgspec.Struct):
    """All keys of a user, newest first."""

    content: list[KeyBody]


async def show_account(request: Request) -> Response:
    facts = (await _account(request)).facts()
    return JsonResponse(
        AccountBody(
            facts.username,
            [right for right in Right if right in facts.rights],
            timestamps.from_datetime(facts.created_at),
            timestamps.from_datetime(facts.password_changed_at),
            services_of(request).max_file_size or None,
        )
    )


async def change_password(request: Request) -> Response:
    account = await _account(request)
    body = await read_json(request, NewPasswordBody, '{"oldPassword": "…", "newPassword": "…"}')
    await account.change_password(body.oldPassword, body.newPassword)
    return _no_content()


async def list_sessions(request: Request) -> Response:
    account = await _account(request)
    found = [
        OpenSessionBody(
            each.id,
            each.device,
            each.address,
            _text(each.created_at),
            _text(each.used_at),
            account.is_current(each),
        )
        for each in await account.sessions()
    ]
    return JsonResponse(OpenSessionsBody(found))


async def end_session(request: Request) -> Response:
    account = await _account(request)
    await account.end_session(last_segment(request))
    return _no_content()


async def end_other_sessions(request: Request) -> Response:
    account = await _account(request)
    await account.end_other_sessions()
    return _no_content()


async def show_invitation(request: Request) -> Response:
    """`POST`, so that the token is in no log."""
    context_of(request).action = "invitation"
    body = await read_json(request, InvitationTokenBody, '{"token": "…"}')
    found = await services_of(request).gateway.authentication.invitation(context_of(request), body.token)
    return JsonResponse(InvitationBody(found.user.name, timestamps.from_datetime(found.expires_at)))


async def accept_invitation(request: Request) -> Response:
    context_of(request).action = "invitation"
    body = await read_json(request, AcceptedInvitationBody, '{"token": "…", "password": "…"}')
    authentication = services_of(request).gateway.authentication
    await authentication.accept_invitation(context_of(request), body.token, body.password)
    return _no_content()


async def list_keys(request: Request) -> Response:
    account = await _account(request)
    return JsonResponse(KeysBody([KeyBody(**_facts(key)) for key in await account.keys()]))


async def add_key(request: Request) -> Response:
    account = await _account(request)
    body = await read_json(request, NewKeyBody, '{"name": "nightly backup"}')
    new = await account.add_key(
        KeyScope(
            body.name,
            None if body.rights is None else frozenset(body.rights),
            Path.parse(body.folder),
            tuple(map(parse_network, body.addresses)),
            _moment(body.expiresAt),
        )
    )
    return JsonResponse(_made(new), 201)


async def end_key(request: Request) -> Response:
    account = await _account(request)
    await account.end_key(last_segment(request))
    return _no_content()


async def _account(request: Request) -> OwnAccount:
    context_of(request).action = "account"
    return services_of(request).gateway.account(await actor_of(request))


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else timestamps.parse(text)
    except ValueError:
        raise InvalidRequest("'expiresAt' is no time; write it like 2027-01-31T00:00:00Z.") from None


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else timestamps.from_datetime(moment)


def _made(new: NewKey) -> MadeKeyBody:
    return MadeKeyBody(**_facts(new.key), key=new.text)


def _facts(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "rights": [right for right in Right if right in key.rights],
        "folder": str(key.folder),
        "addresses": [str(each) for each in key.addresses],
        "createdAt": _text(key.created_at),
        "expiresAt": _text(key.expires_at),
        "lastUsedAt": _text(key.used_at),
        "lastUsedFrom": key.used_from,
    }


def _no_content() -> Response:
    return Response(status_code=204, headers={"Cache-Control": "no-store"})
