"""The clocks. A moment, as the database keeps it, is in milliseconds since the epoch."""

import asyncio
import time
from datetime import UTC, datetime


def now() -> int:
    return time.time_ns() // 1_000_000


def to_datetime(moment: int) -> datetime:
    return datetime.fromtimestamp(moment / 1000, UTC)


def monotonic() -> float:
    """Seconds of a clock that nobody sets."""
    return time.monotonic()


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)
