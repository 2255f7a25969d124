"""`CredentialCache`: what the database says of a credential, for under a second."""

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from portico import clock
from portico.single_flight import SingleFlight

CACHED_SECONDS: Final = 0.8
"""How long an answer is cached, in seconds."""

_SHARED_SECONDS = 0.2
"""How long a query may be shared, in seconds; with `CACHED_SECONDS`, no answer is older than one second."""
_MAX_CACHED = 10_000

T = TypeVar("T")


class CredentialCache(Generic[T]):
    def __init__(
        self, query: Callable[[bytes], Awaitable[tuple[T, int] | None]], now: Callable[[], int]
    ) -> None:
        """`query`: what belongs to a digest, and when that expires; None if it is not valid. `now`: in milliseconds."""
        self._query = query
        self._now = now
        self._cache: dict[bytes, tuple[float, int, T]] = {}
        self._queries: SingleFlight[bytes, T | None] = SingleFlight(_SHARED_SECONDS)
        self._generation = 0

    async def get(self, digest: bytes) -> T | None:
        cached = self._cache.get(digest)
        if cached is not None and clock.monotonic() < cached[0] and self._now() < cached[1]:
            return cached[2]
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
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[digest] = (queried_at + CACHED_SECONDS, expires_at, value)
        return value
