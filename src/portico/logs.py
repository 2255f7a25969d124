"""Logging: lines for people on a terminal, JSON lines elsewhere."""

import logging
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from portico import timestamps

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Of the request that is being served: it stands in every line that is written meanwhile."""


class RequestLine(msgspec.Struct, gc=False):
    """What is noted of each request."""

    method: str
    path: str
    status: int
    bytes: int
    ms: float
    client: str
    user: str | msgspec.UnsetType
    request_id: str
    event: str = "request"
    level: str = "info"
    timestamp: str = msgspec.field(default_factory=lambda: timestamps.from_epoch(time.time_ns() // 1_000_000))


class RequestLog:
    """Where request lines go. There is one for each request, so they do not take the way of all other lines."""

    def __init__(self) -> None:
        self.write: Callable[[RequestLine], None] = _write_nothing


def _write_nothing(line: RequestLine) -> None:
    pass


requests = RequestLog()


def configure(level: str) -> None:
    """Write to standard error from now on, what is of `level` and above."""
    stderr = sys.stderr
    threshold = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [with_request_id, structlog.processors.add_log_level, _without_nothing]
    if stderr.isatty():
        structlog.configure(
            processors=[
                *shared,
                structlog.processors.TimeStamper("%H:%M:%S", utc=False),
                structlog.dev.ConsoleRenderer(pad_event_to=0, pad_level=False),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(threshold),
            logger_factory=structlog.WriteLoggerFactory(stderr),
            cache_logger_on_first_use=True,
        )
        requests.write = _write_for_people
    else:
        output = structlog.BytesLogger(stderr.buffer)
        structlog.configure(
            processors=[
                *shared,
                structlog.processors.TimeStamper("iso", utc=True),
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(serializer=_to_json),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(threshold),
            logger_factory=lambda *_: output,
            cache_logger_on_first_use=True,
        )
        requests.write = lambda line: output.msg(_encode(line))
    if threshold > logging.INFO:
        requests.write = _write_nothing


_encode = msgspec.json.Encoder().encode


def _write_for_people(line: RequestLine) -> None:
    fields = msgspec.structs.asdict(line)
    for name in ("event", "level", "timestamp", "request_id"):
        del fields[name]
    user = fields.pop("user") or None
    structlog.get_logger().info(line.event, **fields, user=user)


def _to_json(event: EventDict, **_: object) -> bytes:
    return msgspec.json.encode(event, enc_hook=repr)


def with_request_id(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    event.setdefault("request_id", REQUEST_ID.get())
    return event


def _without_nothing(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {key: value for key, value in event.items() if value is not None}
