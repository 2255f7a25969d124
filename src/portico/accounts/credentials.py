"""Tokens, tickets, keys and links: what is stored of them, and what is cached of them for under a second."""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Final, Generic, TypeVar

from portico.runtime import clock
from portico.runtime.tasks import SingleFlight

CACHED_SECONDS: Final = 0.8
"""How long an answer is cached, in seconds."""

KEY_PREFIX: Final = "pk_"
KEY_LENGTH: Final = 39
GUEST_PREFIX: Final = "ps_"
GUEST_LENGTH: Final = 46
"""Of a guest's token or ticket: no token of a user is that long."""

_SHARED_SECONDS = 0.2
"""How long a query may be shared, in seconds; with `CACHED_SECONDS`, no answer is older than one second."""
_MAX_CACHED = 10_000
_MAX_LENGTH = 256
"""Characters. No credential is as long."""

T = TypeVar("T")


def digest_of(credential: str) -> bytes:
    """What is stored of a credential. It may be any text that a client sent."""
    return sha256(credential[:_MAX_LENGTH].encode("utf-8", "surrogatepass")).digest()


def resembles_key(text: str) -> bool:
    """Whether this is meant to be an API key. An access token may begin with the same letters, but is longer."""
    return len(text) == KEY_LENGTH and text.startswith(KEY_PREFIX)


def resembles_guest_token(text: str) -> bool:
    return len(text) == GUEST_LENGTH and text.startswith(GUEST_PREFIX)


class CredentialCache(Generic[T]):
    def __init__(self, query: Callable[[bytes], Awaitable[tuple[T, int] | None]], now: Callable[[], int]) -> None:
        """`query`: what belongs to a digest, and when that expires; None if it is not valid. `now`: in milliseconds."""
        self._query = query
        self._now = now
        self._cache: dict[bytes, tuple[float, T]] = {}
        """Each with the monotonic time until which it holds."""
        self._queries: SingleFlight[bytes, T | None] = SingleFlight(_SHARED_SECONDS)
        self._generation = 0

    async def get(self, digest: bytes) -> T | None:
        cached = self._cache.get(digest)
        if cached is not None and clock.monotonic() < cached[0]:
            return cached[1]
        return await self._queries.run(digest, lambda: self._ask(digest, self._generation))

    def forget(self) -> None:
        """Clear the cache, and do not share queries that are under way."""
        self._generation += 1
        self._cache.clear()
        self._queries.forget_all()

    async def _ask(self, digest: bytes, generation: int) -> T | None:
        queried_at = clock.monotonic()
        found = await self._query(digest)
        if found is None:
            return None
        value, expires_at = found
        if generation == self._generation:
            self._cache.pop(digest, None)
            self._drop_expired()
            left = (expires_at - self._now()) / 1000
            self._cache[digest] = (min(queried_at + CACHED_SECONDS, clock.monotonic() + left), value)
        return value

    def _drop_expired(self) -> None:
        """They are nearly in the order in which they expire: the first that still holds ends it."""
        now = clock.monotonic()
        while self._cache:
            digest, (until, _) = next(iter(self._cache.items()))
            if now < until and len(self._cache) < _MAX_CACHED:
                break
            del self._cache[digest]
