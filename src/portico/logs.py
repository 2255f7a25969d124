"""Logging: lines for people on a terminal, JSON lines elsewhere."""

import logging
import sys

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger


def configure(level: str) -> None:
    """Write to standard error from now on, what is of `level` and above."""
    stderr = sys.stderr
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _without_nothing,
    ]
    threshold = structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()])
    if stderr.isatty():
        structlog.configure(
            processors=[
                *shared,
                structlog.processors.TimeStamper("%H:%M:%S", utc=False),
                structlog.dev.ConsoleRenderer(pad_event_to=0, pad_level=False),
            ],
            wrapper_class=threshold,
            logger_factory=structlog.WriteLoggerFactory(stderr),
            cache_logger_on_first_use=True,
        )
    else:
        structlog.configure(
            processors=[
                *shared,
                structlog.processors.TimeStamper("iso", utc=True),
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(serializer=_to_json),
            ],
            wrapper_class=threshold,
            logger_factory=structlog.BytesLoggerFactory(stderr.buffer),
            cache_logger_on_first_use=True,
        )


def _to_json(event: EventDict, **_: object) -> bytes:
    return msgspec.json.encode(event, enc_hook=repr)


def _without_nothing(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {key: value for key, value in event.items() if value is not None}
