"""The trash: what was deleted or replaced on the gateway, and can be brought back."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from portico.client.auth.session import AuthSession
from portico.client.entries import Page
from portico.client.errors import NotAGateway
from portico.client.files import OnConflict
from portico.client.http.effects import Operation, Request
from portico.client.jobs import JobProgress, carried_out
from portico.client.paths import path_of

TRASH = "/backend/1.0.0/trash"


@dataclass(frozen=True, slots=True)
class TrashedItem:
    id: str
    path: str
    """Where it was."""
    name: str
    is_folder: bool
    size: int | None
    reason: str
    """`deleted` or `replaced`."""
    deleted_at: datetime
    expires_at: datetime
    """When it is removed for good."""


def page(session: AuthSession, cursor: str | None) -> Operation[Page[TrashedItem]]:
    query = {"size": 1000, **({"cursor": cursor} if cursor else {})}
    response = yield from session.request(Request("GET", f"{TRASH}?{urlencode(query)}"))
    match response.json():
        case {"content": list(items), "nextCursor": None | str() as following}:
            return Page([_item(item) for item in items], following)
    raise NotAGateway("The response is not a page of the trash. Check that the address is a Portico gateway's.")


def restore(
    session: AuthSession, trash_id: str, on_conflict: OnConflict, progress: JobProgress | None = None
) -> Operation[str]:
    address = f"{_address(trash_id)}?action=RESTORE&onConflict={on_conflict}"
    response, job = yield from carried_out(session, "POST", address, progress)
    return (job.result if job else path_of(response.headers.get("location", ""))) or ""


def remove(session: AuthSession, trash_id: str, progress: JobProgress | None = None) -> Operation[None]:
    yield from carried_out(session, "DELETE", _address(trash_id), progress)


def empty(session: AuthSession, progress: JobProgress | None = None) -> Operation[None]:
    yield from carried_out(session, "DELETE", TRASH, progress)


def _address(trash_id: str) -> str:
    return f"{TRASH}/{quote(trash_id, safe='')}"


def _item(item: Any) -> TrashedItem:
    try:
        return TrashedItem(
            id=str(item["id"]),
            path=str(item["path"]),
            name=str(item["name"]),
            is_folder=bool(item["isFolder"]),
            size=item["size"],
            reason=str(item["reason"]),
            deleted_at=datetime.fromisoformat(item["deletedAt"]),
            expires_at=datetime.fromisoformat(item["expiresAt"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NotAGateway(
            "The response contains a malformed trash item. Check that the address is a Portico gateway's."
        ) from error
