"""Moves and copies on the gateway.

Each has an idempotency key: the gateway carries it out once, and after a temporary failure the request is sent again.
"""

from typing import Literal

from portico.client.auth.session import AuthSession
from portico.client.errors import AlreadyExists, ConnectionFailed, NotFound, RequestRunning, Temporary, Unavailable
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
    reported: Temporary | None = None
    """The last failure that the gateway itself has reported."""
    while True:
        try:
            response = yield from session.request_once(request)
            break
        except (AlreadyExists, NotFound):
            if reported is None:
                raise
            raise reported from None  # it says more than a conflict with what it left
        except Temporary as error:
            if not isinstance(error, RequestRunning | ConnectionFailed | Unavailable):
                reported = error
            yield from backoff.wait(error)
    job = yield from outcome(session, response, waiting)
    return None if waiting.wait else job
