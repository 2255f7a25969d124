"""Moves and copies on the gateway.

Each has an idempotency key: the gateway carries it out once, and the request is simply retried. Only if the outcome is
unknown and the gateway ignores keys, as older ones do, the outcome is checked first: with `fail`, a second request would
be rejected because of what the first one created, and with `rename` it would create a second copy.

- A move is complete if the source is gone and the target exists, and has not started if it is the other way round.
- A copy that may replace the target is retried. So is such a move if the gateway itself reported the failure: it
  continues where the first one stopped.
- With `fail`, the request is retried if the target does not exist.
- In all other cases the outcome is partial or unknown, and the error is raised.
"""

from typing import Literal

from portico.client import files
from portico.client.auth.backoff import is_unprocessed
from portico.client.auth.session import AuthSession
from portico.client.errors import (
    AlreadyExists,
    ConnectionFailed,
    Forbidden,
    NotAFolder,
    NotFound,
    RequestRunning,
    Temporary,
    Unavailable,
)
from portico.client.files import OnConflict
from portico.client.http.effects import Operation, Request, new_key
from portico.client.jobs import Job, Waiting, outcome
from portico.client.paths import clean, target

Action = Literal["MOVE", "COPY"]


def transfer(
    session: AuthSession,
    action: Action,
    source: str,
    destination: str,
    on_conflict: OnConflict | None,
    waiting: Waiting = Waiting(),
) -> Operation[Job | None]:
    """Returns the job, if the change goes on as one that is not waited for."""
    source, destination = clean(source), clean(destination)
    place = target(source, action=action, target=destination, onConflict=on_conflict)
    request = Request("POST", place, new_key() | waiting.headers, long_running=True)
    backoff = session.backoff()
    doubt: Temporary | None = None
    """The last failure after which the gateway may have started."""
    while True:
        try:
            response = yield from session.request_once(request)
            break
        except (AlreadyExists, NotFound):
            if doubt is None or ((yield from session.honours_keys()) and _is_without_answer(doubt)):
                raise
            if not (yield from _is_done(session, action, source, destination, on_conflict)):
                raise doubt from None
            return None
        except Temporary as error:
            if not isinstance(error, RequestRunning) and not is_unprocessed(error):
                doubt = error
                if (yield from session.honours_keys()):
                    pass
                elif (yield from _is_done(session, action, source, destination, on_conflict)):
                    return None
                elif not (yield from _may_repeat(session, action, source, destination, on_conflict, error)):
                    raise
            yield from backoff.wait(error)
    job = yield from outcome(session, response, waiting)
    return None if waiting.wait else job


def _is_without_answer(error: Temporary) -> bool:
    """Whether the gateway itself has said nothing. If it has, that says more than a conflict with what it left."""
    return isinstance(error, ConnectionFailed | Unavailable)


def _is_done(
    session: AuthSession, action: Action, source: str, destination: str, on_conflict: OnConflict | None
) -> Operation[bool]:
    """Whether a move is complete. With `rename`, the new name is unknown, so only the source is checked."""
    if action == "COPY" or (yield from _exists(session, source)) is not False:
        return False
    return on_conflict == "rename" or bool((yield from _exists(session, destination)))


def _may_repeat(
    session: AuthSession,
    action: Action,
    source: str,
    destination: str,
    on_conflict: OnConflict | None,
    error: Temporary,
) -> Operation[bool]:
    if on_conflict == "rename":
        return False
    if on_conflict != "fail" and (action == "COPY" or not isinstance(error, ConnectionFailed)):
        return True
    return (yield from _exists(session, destination)) is False


def _exists(session: AuthSession, path: str) -> Operation[bool | None]:
    """None if that is unknown: the user lacks the right, or the gateway does not respond."""
    try:
        yield from files.stat(session, path)
    except (NotFound, NotAFolder):
        return False
    except (Forbidden, Temporary):
        return None
    return True
