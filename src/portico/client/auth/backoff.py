"""Which failures are retried, and after how long."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from portico.client.errors import ClientError, ConnectionFailed, RequestRunning, Temporary, TooManyRequests, Unavailable
from portico.client.http.effects import Operation, Sleep, T

_MAX_DELAY = 60.0
_MAX_RUNNING = 120.0
"""How long to wait for an earlier attempt that still runs, or that ended with its node, in seconds."""


def is_unprocessed(error: Temporary) -> bool:
    """Whether the gateway cannot have started to process the failed request."""
    if isinstance(error, ConnectionFailed):
        return not error.sent
    # With 502 and 504, a proxy has forwarded the request and does not know its outcome.
    return isinstance(error, TooManyRequests | Unavailable) and error.status not in (502, 504)


@dataclass(slots=True)
class Backoff:
    """Exponential backoff with jitter."""

    attempts: int
    reached: Callable[[], bool]
    retrying: Callable[[], None] | None = None
    _failures: int = 0
    _running: float = 0.0

    def retried(self, begin: Callable[[], Operation[T]]) -> Operation[T]:
        while True:
            try:
                return (yield from begin())
            except Temporary as error:
                yield from self.wait(error)

    def wait(self, error: ClientError) -> Operation[None]:
        """Wait before the next attempt; raise the error if there are no attempts left."""
        if isinstance(error, RequestRunning):  # no failure: the request was received
            delay = error.retry_after or 1.0
            self._running += delay
            error.final = self._running > _MAX_RUNNING
            if error.final:
                raise error
            yield Sleep(delay)
            return
        self._failures += 1
        requested = error.retry_after or 0.0
        # A sign-in within a request has its own retries: retrying the request too would square the attempts.
        error.final = (
            error.final
            or self._failures >= self.attempts
            or requested > _MAX_DELAY
            or (isinstance(error, ConnectionFailed) and error.opening and not self.reached())
        )
        if error.final:
            raise error
        if self._failures > 1 and self.retrying:
            self.retrying()
        # Jitter: clients that failed together must not retry together.
        delay = min(0.25 * 2 ** (self._failures - 1), _MAX_DELAY) * random.uniform(0.5, 1.0)  # noqa: S311
        yield Sleep(max(requested, delay))

    def reset(self) -> None:
        """Start over, after progress was made."""
        self._failures = 0
