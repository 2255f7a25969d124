"""Ownership: rows that one process works on at a time, until it lets go of them or has vanished.

The tables of such rows have the same two columns. `owner` names one claim of one process, and `owned_until` is when the
claim ends, by the database's clock.

- Claim: a row is free once its claim has ended, or as soon as its process is known to have ended.
- Renew: what a process owns in a table is renewed together, so a thousand running requests cost one statement.
- Fence: owners write on the condition that the row is still theirs, so one that was given up for dead changes nothing.
- Expire: other processes of the same machine see that an owner has ended. All others wait for `owned_until`.
"""

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar

import structlog
from sqlalchemy import Column, ColumnElement, Table, and_, bindparam, literal_column, or_, update

from portico.model.errors import PorticoError
from portico.runtime import clock, processes
from portico.store.database import AnyRow, Database

NOBODY: Final = ""
TAKEN_OVER: Final[Mapping[str, ColumnElement[Any]]] = {
    name: literal_column(f"excluded.{name}") for name in ("owner", "owned_until")
}
"""The changes of an upsert that claims a row."""
_RETRY: Final = timedelta(minutes=1)
"""The longest time after which a renewal that failed is tried again."""

log = structlog.get_logger()


def is_mine(table: Table) -> ColumnElement[bool]:
    """The fence. Its parameters are `Owned.me`."""
    [key] = table.primary_key
    return and_(key == bindparam("my_key"), table.c.owner == bindparam("my_owner"))


def is_free(table: Table) -> ColumnElement[bool]:
    """Parameters: `now`, and `dead`, an owner whose process is known to have ended, or None."""
    return or_(table.c.owned_until <= bindparam("now"), table.c.owner == bindparam("dead"))


class Owned:
    """A row that this process owns, renewed until `let_go` is called or another owner has it."""

    def __init__(self, rows: "Ownership[Any]", key: Any, claim: Mapping[str, Any]) -> None:
        """`claim` is `Ownership.new_claim`, as the row has it."""
        self.key = key
        self.owner: str = claim["owner"]
        self.owned_until: int = claim["owned_until"]
        self.me = {"my_key": key, "my_owner": self.owner}
        self._rows = rows
        rows.hold(self)

    def renewed(self, row: AnyRow | None, until: int) -> None:
        """Called after each renewal: with what it returned, or None if another owner has the row."""
        if row is not None:
            self.owned_until = until

    @property
    def is_held(self) -> bool:
        """Whether the row is this process's, as far as it knows."""
        return self._rows.holds(self)

    async def change(self, **values: Any) -> bool:
        """Change the row. False if another owner has it."""
        statement = update(self._rows.table).where(is_mine(self._rows.table)).values(values)
        return await self._rows.database.execute(statement, self.me) > 0

    async def let_go(self) -> None:
        """When this returns, no renewal of the row is under way or will be."""
        await self._rows.let_go(self)


O = TypeVar("O", bound=Owned)  # noqa: E741


class Ownership(Generic[O]):
    """The rows of one table that this process owns, renewed at each interval until it lets go of them or loses them.

    An error of the database is logged, and loses nothing. A renewal is never cancelled in the middle of a query, which
    would cost the pool a connection.
    """

    def __init__(
        self,
        database: Database,
        table: Table,
        what: str,
        node: str,
        *,
        lifetime: timedelta,
        renewal: timedelta,
        returning: Sequence[Column[Any]] = (),
    ) -> None:
        """`what` is for the log, `lifetime` that of a claim, `returning` what each renewal reads."""
        self.database = database
        self.table = table
        self._what = what
        self._interval = renewal
        self._held: set[O] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._node = node[:40]
        self._lifetime = clock.milliseconds(lifetime)
        self._returning = returning

    def new_claim(self) -> dict[str, Any]:
        """The values of the columns in a row that is claimed now."""
        owner = f"{processes.name_of(os.getpid())}-{secrets.token_hex(8)}@{self._node}"
        return {"owner": owner, "owned_until": self._end()}

    def hold(self, owned: O) -> None:
        self._held.add(owned)
        if self._timer is None and self._renewing is None:
            self._wait(self._interval)

    def holds(self, owned: O) -> bool:
        return owned in self._held

    async def let_go(self, owned: O) -> None:
        self._held.discard(owned)
        if self._renewing is not None:
            await asyncio.wait([self._renewing])

    def is_over(self, row: AnyRow) -> bool:
        """Whether the row is free."""
        return row.owned_until <= self.database.now() or processes.has_ended(row.owner)

    async def renew(self, held: Sequence[O]) -> Sequence[O]:
        """Those that are still owned."""
        [key] = self.table.primary_key
        mine = and_(key.in_([each.key for each in held]), self.table.c.owner.in_([each.owner for each in held]))
        values = self.renewed_values()
        statement = update(self.table).where(mine).values(values)
        found = await self.database.write(statement.returning(self.table.c.owner, *self._returning), durable=False)
        rows = {row.owner: row for row in found}
        for each in held:
            each.renewed(rows.get(each.owner), values["owned_until"])
        return [each for each in held if each.owner in rows]

    def renewed_values(self) -> dict[str, Any]:
        return {"owned_until": self._end()}

    def _wait(self, interval: timedelta) -> None:
        # A timer, which stays for a moment when nothing is held: short requests need neither a task nor a timer each.
        self._timer = asyncio.get_running_loop().call_later(interval.total_seconds(), self._start)

    def _start(self) -> None:
        self._timer = None
        if self._held:
            self._renewing = asyncio.create_task(self._renew_all())

    async def _renew_all(self) -> None:
        interval = min(self._interval, _RETRY)
        try:
            due = list(self._held)
            kept = await self.renew(due)
            self._held.difference_update(set(due).difference(kept))
            interval = self._interval
        except PorticoError as error:
            log.warning(f"{self._what}-not-renewed", code=error.code, cause=error.cause)
        finally:
            self._renewing = None
            self._wait(interval)

    def _end(self) -> int:
        return self.database.now() + self._lifetime
