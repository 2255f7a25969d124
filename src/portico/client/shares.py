"""Share links: for people without an account. A client can also use one, as a guest."""

from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict
from urllib.parse import quote, urlencode

from portico.client.auth.session import AuthSession, json_request
from portico.client.auth.tokens import Tokens
from portico.client.entries import camel, items_of
from portico.client.errors import NotAGateway
from portico.client.http.effects import Operation, Request
from portico.client.paths import clean

LinkKind = Literal["download", "request", "both"]
"""What guests may do: download, send files (upload only), or both."""

LINKS = "/backend/1.0.0/account/links"
SHARE_SESSIONS = "/backend/1.0.0/share-sessions"
_PAGE = 1000


class LinkOptions(TypedDict, total=False):
    title: str
    note: str
    password: str | None
    expires_at: datetime | None
    """A time without a zone is local."""
    max_downloads: int | None
    max_uploads: int | None
    max_bytes: int | None
    types: list[str]
    """Such as `.pdf` or `image/*`: what may be sent."""
    ask_name: bool
    folder_per_sender: bool


@dataclass(frozen=True, slots=True)
class ShareLink:
    id: str
    path: str
    kind: str
    state: str
    """`open`, `used-up`, `expired` or `ended`."""
    title: str = ""
    note: str = ""
    has_password: bool = False
    downloads: int = 0
    max_downloads: int | None = None
    uploads: int = 0
    max_uploads: int | None = None
    max_bytes: int | None = None
    created_at: str = ""
    expires_at: str | None = None
    address: str | None = field(default=None, repr=False)
    """What to send to guests. Only the answer that made it has it."""


@dataclass(frozen=True, slots=True)
class Access:
    at: str
    action: str
    """`open`, `download`, `zip`, `upload` or `wrong-password`."""
    name: str
    client: str
    path: str
    bytes: int | None


def add(session: AuthSession, base_url: str, path: str, kind: LinkKind, options: LinkOptions) -> Operation[ShareLink]:
    body = {"path": clean(path), "kind": kind, **_body(options)}
    answer = (yield from session.request_once(json_request("POST", LINKS, body))).json()
    return _with_whole_address(_link_of(answer), base_url)


def listed(session: AuthSession) -> Operation[list[ShareLink]]:
    return [_link_of(item) for item in items_of((yield from session.request(Request("GET", LINKS))).json())]


def change(session: AuthSession, link_id: str, options: LinkOptions) -> Operation[ShareLink]:
    request = json_request("PATCH", _address(link_id), _body(options))
    return _link_of((yield from session.request(request)).json())


def renew(session: AuthSession, base_url: str, link_id: str) -> Operation[ShareLink]:
    request = Request("POST", f"{_address(link_id)}/address")
    return _with_whole_address(_link_of((yield from session.request_once(request)).json()), base_url)


def end(session: AuthSession, link_id: str) -> Operation[None]:
    yield from session.request(Request("DELETE", _address(link_id)))


def accesses(session: AuthSession, link_id: str) -> Operation[list[Access]]:
    found: list[Access] = []
    cursor: str | None = None
    while True:
        query = urlencode({"size": _PAGE, **({"cursor": cursor} if cursor else {})})
        body = (yield from session.request(Request("GET", f"{_address(link_id)}/accesses?{query}"))).json()
        try:
            found += [Access(**item) for item in items_of(body)]
        except TypeError:
            raise NotAGateway("The response contains an invalid access.") from None
        if (cursor := body.get("nextCursor")) is None:
            return found


def open_link(session: AuthSession, link: str, password: str | None, name: str) -> Operation[Tokens]:
    """Become a guest: the token of the link takes the place of a sign-in."""
    body = {"link": link, "name": name, **({"password": password} if password is not None else {})}
    answer = (yield from session.unauthenticated(json_request("POST", SHARE_SESSIONS, body))).json()
    try:
        # Without its end: that moves as long as there are unfinished uploads, and nothing could renew the token.
        tokens = Tokens(answer["token"], None, None, tuple(answer["rights"]))
    except (KeyError, TypeError):
        raise NotAGateway("The response contains no token.") from None
    yield from session.save(tokens)
    return tokens


def _address(link_id: str) -> str:
    return f"{LINKS}/{quote(link_id, safe='')}"


def _body(options: LinkOptions) -> dict[str, Any]:
    return {
        camel(name): value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
        for name, value in options.items()
    }


def _with_whole_address(link: ShareLink, base_url: str) -> ShareLink:
    """A gateway that does not know its public address answers with a path."""
    if link.address is None or not link.address.startswith("/"):
        return link
    return replace(link, address=base_url + link.address)


def _link_of(item: Any) -> ShareLink:
    try:
        given = {each.name: item[camel(each.name)] for each in fields(ShareLink) if each.name != "address"}
        return ShareLink(**given, address=item.get("address"))
    except (KeyError, TypeError, AttributeError):
        raise NotAGateway("The response contains an invalid link.") from None
