"""What a line of `make soak` measures, and how much it tries: `make test` runs the same lines in short."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from .processes import STORAGES, Storage, TunedGateway

Value = int | float


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    wanted: str
    found: str
    reached: bool
    timed: bool = False
    """Whether it depends on how quick and how busy the machine is: then the short form does not insist on it."""
    cause: str = ""
    """Why it is not reached, or what the measurement leaves out."""


@dataclass(slots=True)
class Effort:
    """How much a line tries, and where."""

    long: bool
    folder: Path
    say: Callable[[str], None] = lambda _: None
    requests: int = 0
    """Of a line that has a number of them; 0 for its own."""
    cases: int = 0
    """The same, of cases or files."""
    _numbers: Any = field(default_factory=count)

    def of(self, short: int, long: int) -> int:
        return long if self.long else short

    def new_folder(self) -> Path:
        folder = self.folder / f"{next(self._numbers)}"
        folder.mkdir()
        return folder

    @asynccontextmanager
    async def gateway(self, *flags: str, kind: str = "local", **options: Any) -> AsyncIterator["Set"]:
        """A running gateway over storage of that kind, ended whatever happens."""
        # One machine plays thousands of clients.
        unlimited = {"PORTICO_SERVER_MAX_CONNECTIONS_PER_ADDRESS": "0"}
        environment = {**unlimited, **options.pop("environment", {})}
        gateway = TunedGateway(self.new_folder() / "home", *flags, environment=environment, **options)
        try:
            gateway.begin()
            storage = STORAGES[kind](gateway)
            await storage.prepare()
            yield Set(gateway, storage)
        finally:
            if gateway.running:
                gateway.kill()


@dataclass(frozen=True, slots=True)
class Set:
    gateway: TunedGateway
    storage: Storage


Line = Callable[[Effort], Coroutine[Any, Any, list[Figure]]]
Lines = Mapping[str, Line]


def none_of(what: str, tried: int, wrong: list[str], cause: str = "") -> Figure:
    """A figure that is reached when nothing went wrong; it shows the first few of what did."""
    found = f"{len(wrong)} in {tried:,}" + "".join(f"; {each}" for each in wrong[:3])
    return Figure(what, "0", found, not wrong and tried > 0, cause=cause)


def at_most(what: str, limit: Value, found: Value, unit: str, cause: str = "") -> Figure:
    return Figure(
        what, f"≤ {limit:g} {unit}", f"{found:.3g} {unit}", found <= limit, timed=unit in ("s", "ms"), cause=cause
    )
