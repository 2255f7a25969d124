"""Requests that move no content: list, look, make, move, copy, delete.

What is repeated after a failure that may pass, and when:

- Looking, listing, making a folder: always; twice is the same as once.
- Deleting: always; if the answer was lost and nothing is there any more, it has been done.
- Copying and moving: see `transfers`.
"""

from typing import Literal

from portico.client.entries import Entry, Page, entry_of, page_of
from portico.client.errors import ConnectionFailed, IsAFolder, NotFound, NotPossible, Temporary
from portico.client.paths import clean, split, target
from portico.client.session import Session
from portico.client.steps import Answer, Ask, Steps

OnConflict = Literal["replace", "fail", "rename"]
"""What happens to a name that is taken. Left out: replace it if the user has that right, else fail."""


def page(session: Session, path: str, size: int | None, cursor: str | None) -> Steps[Page]:
    request = Ask("GET", target(clean(path), action="LIST", size=size, cursor=cursor))
    return page_of((yield from session.request(request)).json(), cursor)


def stat(session: Session, path: str) -> Steps[Entry]:
    return entry_of((yield from session.request(Ask("GET", target(clean(path), action="STAT")))).json())


def head(session: Session, path: str) -> Steps[Entry]:
    """The file as a download would begin; a folder is refused."""
    path = clean(path)
    try:
        answer = yield from session.request(Ask("HEAD", target(path, action="DOWNLOAD")))
    except NotPossible as error:  # the answer to HEAD has no body that could name the code
        raise IsAFolder(
            f"'{path}' is a folder; name a file in it.", status=error.status, request_id=error.request_id
        ) from None
    except NotFound as error:  # nor one that could say it in words
        raise NotFound(f"There is no '{path}'.", status=error.status, request_id=error.request_id) from None
    return described(path, answer)


def described(path: str, answer: Answer) -> Entry:
    """The file that an answer's headers speak of."""
    from email.utils import parsedate_to_datetime  # loads much that few commands need

    headers = answer.headers
    try:
        modified = parsedate_to_datetime(headers["last-modified"]).isoformat()
    except (KeyError, ValueError):
        modified = None
    total = headers.get("content-range", "").rpartition("/")[2] or headers.get("content-length", "")
    return Entry(
        split(path)[1],
        path,
        is_folder=False,
        size=int(total) if total.isdecimal() else None,
        content_type=headers.get("content-type", ""),
        last_modified=modified,
        etag=headers.get("etag"),
    )


def make_folder(session: Session, path: str) -> Steps[None]:
    yield from session.request(Ask("POST", target(clean(path), action="MKDIR")))


def delete(session: Session, path: str, *, recursive: bool) -> Steps[None]:
    request = Ask("DELETE", target(clean(path), recursive="true" if recursive else None), patient=True)
    patience = session.patience()
    lost = False
    while True:
        try:
            yield from session.signed(request)
            return
        except NotFound:
            if lost:
                return
            raise
        except Temporary as error:
            lost = lost or (isinstance(error, ConnectionFailed) and error.sent)
            yield from patience.after(error)
