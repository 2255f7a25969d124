"""Logging: lines for people on a terminal, JSON lines elsewhere."""

import logging
import math
import re
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from portico.model import timestamps
from portico.model.visible_text import visible, visible_json

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being served; part of every log line written meanwhile."""


class RequestLine(msgspec.Struct, gc=False):
    """The log line of a request."""

    method: str
    path: str
    status: int
    bytes: int
    ms: float
    client: str
    user: str | msgspec.UnsetType
    request_id: str
    action: str | msgspec.UnsetType = msgspec.UNSET
    connection: str | msgspec.UnsetType = msgspec.UNSET
    key: str | msgspec.UnsetType = msgspec.UNSET
    link: str | msgspec.UnsetType = msgspec.UNSET
    guest: str | msgspec.UnsetType = msgspec.UNSET
    ticket: bool | msgspec.UnsetType = msgspec.UNSET
    code: str | msgspec.UnsetType = msgspec.UNSET
    node: str | msgspec.UnsetType = msgspec.UNSET
    event: str = "request"
    level: str = "info"
    timestamp: str = msgspec.field(default_factory=lambda: timestamps.from_epoch(time.time_ns() // 1_000_000))


RequestLog = Callable[[RequestLine], None]
"""Writes the line of a request. There is one for every request, so it skips the processors of other log lines."""


def discard(line: RequestLine) -> None:
    """A `RequestLog` that writes nothing."""


def configure(level: str, node: str = "") -> RequestLog:
    """Write log lines of `level` and above to standard error; request lines go to the log that is returned."""
    stderr = sys.stderr
    threshold = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [RateLimitedEvents(), with_request_id, structlog.processors.add_log_level, _drop_none]
    last: list[Processor] = [structlog.processors.format_exc_info, without_secrets]
    processors: list[Processor]
    logger_factory: Callable[..., WrappedLogger]
    if stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer(
            pad_event_to=0, pad_level=False, exception_formatter=structlog.dev.plain_traceback
        )
        processors = [structlog.processors.TimeStamper("%H:%M:%S", utc=False), *last, _visible_values, renderer]
        logger_factory = structlog.WriteLoggerFactory(stderr)
        requests: RequestLog = _write_for_people
    else:
        output = structlog.BytesLogger(stderr.buffer)

        def with_node(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
            return {**event, "node": node} if node else event

        iso = structlog.processors.TimeStamper("iso", utc=True)
        processors = [with_node, iso, *last, structlog.processors.JSONRenderer(serializer=_to_json)]

        def logger_factory(*_: object) -> WrappedLogger:
            return output

        def requests(line: RequestLine) -> None:
            line.node = node or msgspec.UNSET
            data = _encode(line)
            output.msg(data if data.isascii() else visible_json(data))

    structlog.configure(
        processors=[*shared, *processors],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=logger_factory,
        cache_logger_on_first_use=True,
    )
    _capture_library_logs()
    return discard if threshold > logging.INFO else requests


_encode = msgspec.json.Encoder().encode


def _write_for_people(line: RequestLine) -> None:
    fields = msgspec.structs.asdict(line)
    for name in ("event", "level", "timestamp", "request_id", "node"):
        del fields[name]
    known = {name: value for name, value in fields.items() if value is not msgspec.UNSET}
    structlog.get_logger().info(line.event, **known)


def _to_json(event: EventDict, **_: object) -> bytes:
    return visible_json(msgspec.json.encode(event, enc_hook=repr))


def _visible_values(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {key: visible(value, lines=True) if isinstance(value, str) else value for key, value in event.items()}


_MAX_LENGTH = 16 * 1024
"""How many characters of a value are logged."""

_VALUE = r"(?:\"[^\"]*(?:\"|\Z)|'[^']*(?:'|\Z)|[^\s&;'\"<>]+)"
_SECRETS = (
    (re.compile(r"(?i)\b(bearer|basic|sharedkey(?:lite)?)[ =:]+[^\s,;'\"]+"), r"\1 …"),
    (
        re.compile(
            r"(?i)((?:secret|token|passw(?:or)?d|signature|(?:account|access|private)[-_.]?key)[\w-]{0,40}+|"
            r"(?<![a-z0-9])(?:pwd|api[-_.]?key|sig|x-(?:amz|goog)-[a-z-]{1,60}+|assertion|ticket|cursor))"
            r"([\"']?\s*(?:[=:>]|%3d)\s*)" + _VALUE
        ),
        r"\1\2…",
    ),
    (re.compile(r"-----BEGIN [^-]+-----.*?(-----END [^-]+-----|$)", re.S), "…"),
)
"""What a secret looks like in texts that others wrote: in signed addresses, headers, forms and errors.

Each search takes time linear in the text: what may be repeated without a bound is never tried from every position.
"""
_WORD = re.compile(r"\S+")
_USER = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,20}://[^\s:/@]{1,200}):")


def redacted(text: str) -> str:
    """The text without its secrets, and without its end if it is long."""
    whole = len(text) <= _MAX_LENGTH
    shown = text if whole else text[:_MAX_LENGTH]
    for pattern, instead in _SECRETS:
        shown = pattern.sub(instead, shown)
    if "://" in shown:
        shown = _WORD.sub(_without_password, shown)
    if whole:
        return shown
    return f"{_without_open_end(shown)}… ({len(text)} characters)"


def _without_password(word: re.Match[str]) -> str:
    """`scheme://user:password@host`; a password may hold an @ itself, so the last one of the word counts."""
    text = word[0]
    last = text.rfind("@")
    found = _USER.search(text, 0, last) if last > 0 else None
    return f"{found[1]}:…{text[last:]}" if found and found.end() < last else text


def _without_open_end(text: str) -> str:
    """Of a text that was cut: what may be a password whose @ was cut away."""
    last_word = max(text.rfind(" "), text.rfind("\n")) + 1
    found = _USER.search(text, last_word)
    return text[: found.end()] if found else text


def without_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Redact every value last: libraries may put secrets into their messages."""
    return {key: redacted(value) if isinstance(value, str) else value for key, value in event.items()}


class _LibraryHandler(logging.Handler):
    """Writes log records of libraries as structured lines, with the request id."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            structlog.get_logger().log(
                min(logging.CRITICAL, record.levelno // 10 * 10),  # libraries may have levels in between
                "library",
                logger_name=record.name,
                message=record.getMessage()[:4000],
                exc_info=record.exc_info,
            )
        except Exception:
            # As the handlers of `logging` do: a line that cannot be written must not end what it speaks of. The traceback
            # goes to standard error.
            self.handleError(record)


def _capture_library_logs() -> None:
    root = logging.getLogger()
    root.handlers = [_LibraryHandler(logging.WARNING)]
    root.setLevel(logging.WARNING)
    server = logging.getLogger("_granian")  # has a handler of its own, to standard output
    server.handlers.clear()
    server.propagate = True


class RateLimitedEvents:
    """Limits the rate of events that one listing can cause by the thousand."""

    EVENTS = frozenset({"left-out-of-listing"})
    MAX_PER_SECOND = 10
    """The maximum number of lines per second; the first line of the next second says how many were dropped."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = -math.inf
        self._written = 0
        self._dropped = 0

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        if event["event"] not in self.EVENTS:
            return event
        now = self._clock()
        if now - self._since >= 1:
            self._since, self._written = now, 0
            if self._dropped:
                event["dropped"], self._dropped = self._dropped, 0
        if self._written >= self.MAX_PER_SECOND:
            self._dropped += 1
            raise structlog.DropEvent
        self._written += 1
        return event


def with_request_id(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    event.setdefault("request_id", REQUEST_ID.get())
    return event


def _drop_none(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {key: value for key, value in event.items() if value is not None}
