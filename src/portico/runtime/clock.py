"""The clocks, in one place for tests. Times in the database are milliseconds since the epoch."""

import asyncio
import math
import time
from datetime import UTC, datetime, timedelta


def now() -> int:
    return time.time_ns() // 1_000_000


def milliseconds(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


def to_datetime(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def from_datetime(moment: datetime) -> int:
    return math.floor(moment.timestamp() * 1000)


def monotonic() -> float:
    """Seconds of a clock that is never set."""
    return time.monotonic()


def uptime() -> float:
    """Seconds since the machine started, also while it was suspended; never set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)
