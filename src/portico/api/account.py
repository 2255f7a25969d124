"""One's own account: keys. Only a sign-in with a password opens it."""

from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from portico import timestamps
from portico.api.request_body import read_small
from portico.api.requests import actor_of, context_of, services_of, single_header
from portico.api.schemas import JsonResponse
from portico.errors import InvalidRequest, UnsupportedMediaType
from portico.operations.account import ApiKey, KeyScope, NewKey, OwnAccount, parse_network
from portico.paths import Path
from portico.rights import Right

ACCOUNT = "/backend/1.0.0/account"
KEYS = f"{ACCOUNT}/keys"

_MAX_BODY = 16 * 1024

Body = TypeVar("Body", bound=msgspec.Struct)


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


async def list_keys(request: Request) -> Response:
    account = await _account(request)
    return JsonResponse(KeysBody([KeyBody(**_facts(key)) for key in await account.keys()]))


async def add_key(request: Request) -> Response:
    account = await _account(request)
    body = await _body(request, NewKeyBody, '{"name": "nightly backup"}')
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
    await account.end_key(_last_segment(request))
    return _no_content()


async def _account(request: Request) -> OwnAccount:
    context_of(request).action = "account"
    return services_of(request).gateway.account(await actor_of(request))


def _last_segment(request: Request) -> str:
    return str(request.scope["path"]).rpartition("/")[2]


async def _body(request: Request, kind: type[Body], example: str) -> Body:
    if (single_header(request, "Content-Type") or "").partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType("Send the body as application/json.")
    try:
        return msgspec.json.decode(await read_small(request, _MAX_BODY), type=kind)
    except msgspec.ValidationError as error:  # its text names the field, never the value
        raise InvalidRequest(f"The body is not as expected ({error}); send it like {example}.") from None
    except (ValueError, RecursionError):
        raise InvalidRequest(f"The body is not valid JSON; send it like {example}.") from None


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else timestamps.parse(text)
    except ValueError:
        raise InvalidRequest("'expiresAt' is no time; write it like 2027-01-31T00:00:00Z.") from None


def _made(new: NewKey) -> MadeKeyBody:
    return MadeKeyBody(**_facts(new.key), key=new.text)


def _facts(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "rights": [right for right in Right if right in key.rights],
        "folder": str(key.folder),
        "addresses": [str(each) for each in key.addresses],
        "createdAt": timestamps.from_datetime(key.created_at),
        "expiresAt": key.expires_at and timestamps.from_datetime(key.expires_at),
        "lastUsedAt": key.used_at and timestamps.from_datetime(key.used_at),
        "lastUsedFrom": key.used_from,
    }


def _no_content() -> Response:
    return Response(status_code=204, headers={"Cache-Control": "no-store"})
