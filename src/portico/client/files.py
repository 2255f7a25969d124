"""Requests without content: stat, make a folder, delete.

All are retried after temporary failures. Changes have an idempotency key, so that the gateway makes them once. For listings, see
`listing`; for moves and copies, `moves`.
"""

from typing import Literal

from portico.client.auth.session import AuthSession
from portico.client.entries import Entry, entry_of, timestamp
from portico.client.errors import IsAFolder, NotFound
from portico.client.http.effects import Operation, Request, Response, new_key
from portico.client.jobs import JobProgress, carried_out
from portico.client.paths import clean, split, target

OnConflict = Literal["replace", "fail", "rename"]
"""What to do if the name exists. The default is to replace it if the user has that right, and else to fail."""


def stat(session: AuthSession, path: str) -> Operation[Entry]:
    return entry_of((yield from session.request(Request("GET", target(clean(path), action="STAT")))).json())


def head(session: AuthSession, path: str, *, digest: bool = False) -> Operation[Entry]:
    """The file as a download would report it, with its `digest` if the gateway has recorded it; `IsAFolder` for a folder."""
    path = clean(path)
    headers = {"Want-Repr-Digest": "sha-256=1"} if digest else {}
    try:
        response = yield from session.request(Request("HEAD", target(path, action="DOWNLOAD"), headers))
    # A response to HEAD has no detail.
    except IsAFolder as error:
        raise IsAFolder(
            f"'{path}' is a folder; choose a file in it.", status=error.status, request_id=error.request_id
        ) from None
    except NotFound as error:
        raise NotFound(f"'{path}' not found.", status=error.status, request_id=error.request_id) from None
    return described(path, response)


def described(path: str, response: Response) -> Entry:
    headers = response.headers
    total = headers.get("content-range", "").rpartition("/")[2] or headers.get("content-length", "")
    return Entry(
        split(path)[1],
        path,
        is_folder=False,
        size=int(total) if total.isdecimal() else None,
        content_type=headers.get("content-type", ""),
        last_modified=timestamp(headers.get("x-modified")),
        etag=headers.get("etag"),
        digest=headers.get("repr-digest"),
    )


def make_folder(session: AuthSession, path: str) -> Operation[None]:
    yield from session.request(Request("POST", target(clean(path), action="MKDIR"), new_key()))


def delete(
    session: AuthSession, path: str, *, recursive: bool, permanent: bool = False, progress: JobProgress | None = None
) -> Operation[str | None]:
    """The id of what was deleted in the trash, if the gateway keeps it."""
    place = target(clean(path), recursive="true" if recursive else None, permanent="true" if permanent else None)
    response, job = yield from carried_out(session, "DELETE", place, progress)
    return job.trash_id if job else response.headers.get("x-trash-id")
