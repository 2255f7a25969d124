"""Moving and copying at the gateway.

A failure before the gateway began is repeated. One after which it may have begun is looked into first: a second request
with `fail` would be refused because of what the first one made, and one with `rename` would make a second copy.

- A move is done if the source is gone and the target is there, and has not begun if it is the other way round.
- A copy that may replace what is there is repeated, and so is a move if the gateway said itself that it failed: that
  carries on.
- A copy that may not replace is repeated if nothing is at the target.
- What is left is half done, or cannot be told: the failure is the caller's, to look before trying again.
"""

from typing import Literal

from portico.client import files
from portico.client.errors import (
    AlreadyExists,
    ConnectionFailed,
    Forbidden,
    NotAFolder,
    NotFound,
    Temporary,
)
from portico.client.files import OnConflict
from portico.client.paths import clean, target
from portico.client.session import Session, is_unheard
from portico.client.steps import Ask, Steps

Action = Literal["MOVE", "COPY"]


def transfer(
    session: Session, action: Action, source: str, destination: str, on_conflict: OnConflict | None
) -> Steps[None]:
    source, destination = clean(source), clean(destination)
    place = target(source, action=action, target=destination, onConflict=on_conflict)
    patience = session.patience()
    doubt: Temporary | None = None
    """The last failure after which it may have begun."""
    while True:
        try:
            yield from session.signed(Ask("POST", place, patient=True))
            return
        except (AlreadyExists, NotFound):
            if doubt is None:
                raise
            if not (yield from _is_done(session, action, source, destination, on_conflict)):
                raise doubt from None
            return
        except Temporary as error:
            if not is_unheard(error):
                doubt = error
                if (yield from _is_done(session, action, source, destination, on_conflict)):
                    return
                if not (yield from _may_repeat(session, action, source, destination, on_conflict, error)):
                    raise
            yield from patience.after(error)


def _is_done(
    session: Session, action: Action, source: str, destination: str, on_conflict: OnConflict | None
) -> Steps[bool]:
    """Whether a move has come to its end. The name that `rename` gave is not known, but the source is gone with it."""
    if action == "COPY" or (yield from _is_there(session, source)) is not False:
        return False
    return on_conflict == "rename" or bool((yield from _is_there(session, destination)))


def _may_repeat(
    session: Session,
    action: Action,
    source: str,
    destination: str,
    on_conflict: OnConflict | None,
    error: Temporary,
) -> Steps[bool]:
    if on_conflict == "rename":
        return False
    if on_conflict != "fail" and (action == "COPY" or not isinstance(error, ConnectionFailed)):
        return True
    return (yield from _is_there(session, destination)) is False


def _is_there(session: Session, path: str) -> Steps[bool | None]:
    """None if the user may not look, or nobody answers."""
    try:
        yield from files.stat(session, path)
    except (NotFound, NotAFolder):
        return False
    except (Forbidden, Temporary):
        return None
    return True
