"""A token bucket for each key: some at once, then so many a second."""

from portico.accounts import moments

_MOST_KEYS = 10_000


class Allowance:
    def __init__(self, *, burst: int, rate: float) -> None:
        self._burst = burst
        self._rate = rate
        self._left: dict[bytes, tuple[float, float]] = {}
        """What is left, and when that was."""

    def take(self, key: bytes) -> bool:
        """Whether there was one left for this key, which is taken then."""
        now = moments.monotonic()
        left, since = self._left.get(key, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._rate)
        if left < 1:
            return False
        if len(self._left) >= _MOST_KEYS:
            self._forget_the_idle(now)
        self._left[key] = left - 1, now
        return True

    def _forget_the_idle(self, now: float) -> None:
        full = self._burst / self._rate
        self._left = {key: held for key, held in self._left.items() if now - held[1] < full}
