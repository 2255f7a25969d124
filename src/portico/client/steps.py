"""What the client does, apart from how it is done: steps that sync and async code perform alike.

An operation is a generator. It yields what it needs done and is sent the result, or thrown the error:

    def stat(path: str) -> Steps[Entry]:
        answer = yield Ask("GET", …)
        return Entry.of(answer.json())

Each operation is written once that way. `workers` performs steps with sockets and threads, `tasks` with asyncio.
"""

import json
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from portico.client.errors import NotAGateway

T = TypeVar("T")

Piece = bytes | memoryview


class Stopped(Exception):
    """Others that work on the same have failed, or the caller was interrupted: there is no use in going on."""


class Body(Protocol):
    """A request's body. Iterating it anew begins it anew, as long as `replayable` says so."""

    @property
    def length(self) -> int | None: ...

    @property
    def replayable(self) -> bool: ...

    @property
    def slow(self) -> bool:
        """Whether the next chunk may have to be waited for, as that of a file."""

    def __iter__(self) -> Iterator[Piece]: ...


class Sink(Protocol):
    """Takes the body of a successful answer in."""

    @property
    def slow(self) -> bool:
        """Whether writing may have to be waited for, as that to a file."""

    def begin(self, answer: "Answer") -> None: ...

    def write(self, piece: Piece) -> None: ...


@dataclass(slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    """By lower-case names."""
    content: bytes = field(default=b"", repr=False)

    def json(self) -> Any:
        try:
            return json.loads(self.content)
        except ValueError:
            raise NotAGateway(
                "The answer is no JSON; is this the address of a Portico gateway?",
                status=self.status,
                request_id=self.headers.get("x-request-id"),
            ) from None


@dataclass(slots=True)
class Ask:
    """One request and its answer; `ConnectionFailed` if there is none."""

    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    body: Body | None = None
    sink: Sink | None = None
    patient: bool = False
    """Whether the answer may take minutes, as that to the move of a large folder."""


@dataclass(slots=True)
class Pause:
    seconds: float


@dataclass(slots=True)
class Work:
    """A call that may block: disks, terminals."""

    call: Callable[[], Any]


@dataclass(slots=True)
class Alone:
    """Steps that one at a time may be in, over all threads and tasks of a client."""

    steps: "Steps[Any]"


@dataclass(slots=True)
class Together:
    """Many steps at the same time, taken from an iterator as there is room; the first error ends them all."""

    steps: Iterator["Steps[None]"]
    limit: int


Need = Ask | Pause | Work | Alone | Together
Steps = Generator[Need, Any, T]


def ask(request: Ask) -> Steps[Answer]:
    answer: Answer = yield request
    return answer


def work(call: Callable[[], T]) -> Steps[T]:
    result: T = yield Work(call)
    return result
