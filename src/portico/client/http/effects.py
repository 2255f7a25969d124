"""Effects: what an operation asks its runner to do.

Each operation is written once, as a generator without I/O. It yields an effect and is sent the result, or has the error
thrown into it:

    def stat(path: str) -> Operation[Entry]:
        response = yield Request("GET", …)
        return entry_of(response.json())

`sync_runner` performs effects with sockets and threads, `async_runner` with asyncio.
"""

import json
import secrets
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from portico.client.errors import NotAGateway

HEADER = "Idempotency-Key"


def new_key() -> dict[str, str]:
    """A key as a header. It goes with all attempts of one request, and with no other request."""
    return {HEADER: f'"{secrets.token_hex(16)}"'}


LINES = "application/x-ndjson"
"""The media type of a stream of lines."""

T = TypeVar("T")

Piece = bytes | memoryview


class Stopped(Exception):
    """A concurrent operation failed, or the caller was interrupted."""


class Body(Protocol):
    """A request body. Each iteration starts over, as long as it is `replayable`."""

    @property
    def length(self) -> int | None: ...

    @property
    def replayable(self) -> bool: ...

    @property
    def blocking(self) -> bool:
        """Whether iterating may block, as reading a file does."""

    def __iter__(self) -> Iterator[Piece]: ...


class Sink(Protocol):
    """Receives the body of a successful response."""

    @property
    def blocking(self) -> bool:
        """Whether `write` may block, as writing to a file does."""

    def begin(self, response: "Response") -> None: ...

    def write(self, piece: Piece) -> None: ...


@dataclass(slots=True)
class Response:
    status: int
    headers: dict[str, str]
    """Names are in lower case."""
    content: bytes = field(default=b"", repr=False)
    stream: Any = field(default=None, repr=False)
    """The body, if the request `streams` and it consists of lines: an iterator, or an asynchronous one. It has to be closed."""

    @property
    def has_lines(self) -> bool:
        return self.status == 200 and self.headers.get("content-type", "").partition(";")[0].strip() == LINES

    def json(self) -> Any:
        try:
            return json.loads(self.content)
        except ValueError:
            raise NotAGateway(
                "The response is not JSON. Check that the address is a Portico gateway's.",
                status=self.status,
                request_id=self.headers.get("x-request-id"),
            ) from None


@dataclass(slots=True)
class Request:
    """Sends a request and returns the response; raises `ConnectionFailed` if there is none."""

    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    body: Body | None = None
    sink: Sink | None = None
    long_running: bool = False
    """Whether the response may take minutes, as for the move of a large folder."""
    streams: bool = False
    """Whether the caller reads a body of lines itself. While it does, the connection does not count as one of the pool."""
    expects_refusal: bool = True
    """Whether a large body waits for the gateway's consent; the next part of a file that is being received need not."""


@dataclass(slots=True)
class Sleep:
    seconds: float


@dataclass(slots=True)
class Blocking:
    call: Callable[[], Any]


@dataclass(slots=True)
class Exclusive:
    """Runs an operation under the client's lock, which all its threads and tasks share."""

    operation: "Operation[Any]"


@dataclass(slots=True)
class Concurrently:
    """Runs up to `limit` operations at once, taken from an iterator. The first error cancels the others."""

    operations: Iterator["Operation[None]"]
    limit: int


Effect = Request | Sleep | Blocking | Exclusive | Concurrently
Operation = Generator[Effect, Any, T]


def send(request: Request) -> Operation[Response]:
    response: Response = yield request
    return response


def blocking(call: Callable[[], T]) -> Operation[T]:
    result: T = yield Blocking(call)
    return result
