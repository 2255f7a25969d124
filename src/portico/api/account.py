"""One's own account: password, sessions, keys; invitations. Only a sign-in with a password opens an account."""

from datetime import datetime
from typing import Annotated, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from portico.api.request_body import read_json
from portico.api.requests import context_of, last_segment, operations_of, services_of
from portico.api.schemas import JsonResponse, filled
from portico.model import timestamps
from portico.model.errors import InvalidRequest
from portico.model.paths import Path
from portico.model.rights import Right, held, shown
from portico.operations.account import ApiKey, KeyScope, OwnAccount, parse_network

ACCOUNT = "/backend/1.0.0/account"
KEYS = f"{ACCOUNT}/keys"
PASSWORD = f"{ACCOUNT}/password"
SESSIONS = f"{ACCOUNT}/sessions"
INVITATION = "/backend/1.0.0/invitation"
INVITATION_PASSWORD = f"{INVITATION}/password"


class AccountBody(msgspec.Struct, rename="camel"):
    """The account of the signed-in user."""

    username: str
    rights: list[Right]
    created_at: str
    password_changed_at: str
    max_file_size: int | None
    """Bytes; null is no limit."""


class NewPasswordBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    old_password: str
    new_password: str


class OpenSessionBody(msgspec.Struct, rename="camel"):
    """A sign-in that has not ended. What is null is not known."""

    id: str
    device: str | None
    """What the client called itself: its User-Agent."""
    address: str | None
    created_at: str | None
    last_used_at: str | None
    """When it was begun, or its token was last refreshed."""
    current: bool
    """Whether it is the session of this request."""


class OpenSessionsBody(msgspec.Struct):
    """All sessions of a user, the one that was used last first."""

    content: list[OpenSessionBody]


class InvitationTokenBody(msgspec.Struct, forbid_unknown_fields=True):
    token: str


class InvitationBody(msgspec.Struct, rename="camel"):
    username: str
    expires_at: str


class AcceptedInvitationBody(msgspec.Struct, forbid_unknown_fields=True):
    token: str
    password: str


class NewKeyBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What a key is to be for. Only the name is required."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    rights: list[Right] | None = None
    """Some of the owner's rights; by default all that the owner has now."""
    folder: str = "/"
    """A folder of the owner's tree, which is the root of all paths of the key."""
    addresses: Annotated[list[str], msgspec.Meta(max_length=32)] = []
    """Addresses and ranges, such as 10.0.0.0/8, from which the key may be used; by default from anywhere."""
    expires_at: str | None = None
    """By default it never expires."""


class KeyBody(msgspec.Struct, rename="camel"):
    """An API key, without the key itself."""

    id: str
    name: str
    rights: list[Right]
    folder: str
    addresses: list[str]
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    """To the minute."""
    last_used_from: str | None


class MadeKeyBody(KeyBody, kw_only=True, rename="camel"):
    """A key that was just made."""

    key: str
    "The key itself. It is shown only once."


Key = TypeVar("Key", bound=KeyBody)


class KeysBody(msgspec.Struct):
    """All keys of a user, newest first."""

    content: list[KeyBody]


async def show_account(request: Request) -> Response:
    user = (await _account(request)).user
    return JsonResponse(
        AccountBody(
            user.name,
            shown(user.rights),
            timestamps.from_datetime(user.created_at),
            timestamps.from_datetime(user.password_changed_at),
            services_of(request).max_file_size or None,
        )
    )


async def change_password(request: Request) -> Response:
    account = await _account(request)
    body = await read_json(request, NewPasswordBody, '{"oldPassword": "…", "newPassword": "…"}')
    await account.change_password(body.old_password, body.new_password)
    return _no_content()


async def list_sessions(request: Request) -> Response:
    account = await _account(request)
    found = [
        OpenSessionBody(
            each.id, each.device, each.address, _text(each.created_at), _text(each.used_at), account.is_current(each)
        )
        for each in await account.sessions()
    ]
    return JsonResponse(OpenSessionsBody(found))


async def end_session(request: Request) -> Response:
    await (await _account(request)).end_session(last_segment(request))
    return _no_content()


async def end_other_sessions(request: Request) -> Response:
    await (await _account(request)).end_other_sessions()
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
    return JsonResponse(KeysBody([_key(KeyBody, key) for key in await account.keys()]))


async def add_key(request: Request) -> Response:
    account = await _account(request)
    body = await read_json(request, NewKeyBody, '{"name": "nightly backup"}')
    new = await account.add_key(
        KeyScope(
            body.name,
            None if body.rights is None else held(body.rights),
            Path.parse(body.folder),
            tuple(map(parse_network, body.addresses)),
            _moment(body.expires_at),
        )
    )
    return JsonResponse(_key(MadeKeyBody, new.key, key=new.text), 201)


async def end_key(request: Request) -> Response:
    await (await _account(request)).end_key(last_segment(request))
    return _no_content()


async def _account(request: Request) -> OwnAccount:
    context_of(request).action = "account"
    return (await operations_of(request)).account


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else timestamps.parse(text)
    except ValueError:
        raise InvalidRequest("'expiresAt' is not a valid time; use one like 2027-01-31T00:00:00Z.") from None


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else timestamps.from_datetime(moment)


def _key(kind: type[Key], key: ApiKey, /, **more: str) -> Key:
    return filled(
        kind,
        key,
        rights=shown(key.rights),
        folder=str(key.folder),
        addresses=list(map(str, key.addresses)),
        created_at=_text(key.created_at),
        expires_at=_text(key.expires_at),
        last_used_at=_text(key.used_at),
        last_used_from=key.used_from,
        **more,
    )


def _no_content() -> Response:
    return Response(status_code=204, headers={"Cache-Control": "no-store"})
