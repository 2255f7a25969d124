"""Idempotency keys: of all requests under one key, on any worker and node, one at a time runs, until one has an answer.

A row is owned while its request runs. Without an owner, it holds the answer. Until then `response` holds notes of what is
being done, for the request that takes over.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec
import structlog
from sqlalchemy import (
    ColumnElement,
    Executable,
    LargeBinary,
    and_,
    bindparam,
    delete,
    func,
    literal,
    literal_column,
    select,
    update,
)

from portico.model.errors import PorticoError, Unavailable
from portico.runtime import clock
from portico.runtime.processes import has_ended
from portico.store.database import SWEEP_WAIT, AnyRow, Database, upsert
from portico.store.ownership import NOBODY, TAKEN_OVER, Owned, Ownership, is_free, is_mine
from portico.store.tables import idempotency_keys as keys

KEPT: Final = timedelta(days=1)
"""How long a key is known, from its first request on."""
LIFETIME: Final = timedelta(seconds=30)
"""How long a row stays owned after its owner vanished on another machine."""
MAX_KEPT: Final = 20_000
"""Answers that are kept for one actor. Those of more requests are forgotten early, the oldest first."""
_TRIM_EVERY: Final = 100
"""Claims of one actor in this process after which surplus answers are removed."""
_MOST_TRIMMED: Final = 10_000
_RENEWALS: Final = 3
"""In each lifetime, so that one may fail."""
_ATTEMPTS: Final = 5
_NO_NOTES: Final = b"{}"

_ANSWERING: Final = update(keys).where(is_mine(keys)).values(owner=NOBODY, response=bindparam("answer"))

log = structlog.get_logger()


class Answered(msgspec.Struct, frozen=True):
    response: bytes
    scope: str
    """As the first request had it."""


class Running(msgspec.Struct, frozen=True):
    """Another request under this key."""


class Reused(msgspec.Struct, frozen=True):
    """The key belongs to a request that differs."""


class RequestClaim(Owned):
    """A key that this request owns, renewed until it is answered or given up."""

    def __init__(self, rows: "IdempotencyKeys", digest: bytes, claim: Mapping[str, Any], row: AnyRow) -> None:
        super().__init__(rows, digest, claim)
        self.repeated = row.response is not None
        """Whether an earlier request under this key was interrupted: it may have been carried out, in part or wholly."""
        self.notes: dict[str, str] = msgspec.json.decode(row.response or _NO_NOTES, type=dict[str, str])
        """What was noted so far, also by earlier requests."""
        self.first_at: int = row.expires_at - clock.milliseconds(KEPT)
        """When the first request under this key arrived, by the database's clock."""

    async def is_owned(self) -> bool:
        """Whether nobody has taken the key over: this process may have been suspended for long."""
        return self._rows.database.now() < self.owned_until or bool(await self._rows.renew([self]))

    async def note(self, notes: Mapping[str, str]) -> bool:
        """Keep these in case this process vanishes; False if the key is no longer owned."""
        self.notes |= notes
        return await self.change(response=msgspec.json.encode(self.notes))

    async def answer(self, response: bytes) -> None:
        await self.let_go()
        try:
            await self._rows.database.execute(_ANSWERING, {**self.me, "answer": response})
        except PorticoError as error:
            # It is done, and the client learns that. A repeated request finds the row as after a crash.
            log.warning("idempotency-key-not-answered", cause=error.cause)

    async def give_up(self, *, begun: bool) -> None:
        """The next request under this key runs: as a repeated one if this one has begun to change something."""
        await self.let_go()
        try:
            if begun or self.repeated:
                await self.change(owned_until=0, response=func.coalesce(keys.c.response, _no_notes()))
            else:
                await self._rows.database.execute(delete(keys).where(is_mine(keys)), self.me)
        except PorticoError as error:  # then it expires
            log.warning("idempotency-key-not-released", cause=error.cause)


class IdempotencyKeys(Ownership[RequestClaim]):
    def __init__(self, database: Database, lifetime: timedelta = LIFETIME) -> None:
        super().__init__(database, keys, "idempotency-key", "", lifetime=lifetime, renewal=lifetime / _RENEWALS)
        self._taking = _taking(database.dialect)
        self._claims: Counter[str] = Counter()
        """Of each actor, since surplus answers were last removed."""

    async def claim(
        self, digest: bytes, request: bytes, scope: str, actor: str
    ) -> RequestClaim | Answered | Running | Reused:
        """`digest` identifies the key, `request` the request under it.

        `scope`: what its sender may do. `actor`: those whose answers are limited together.
        """
        await self._trim(actor)
        dead = None
        for _ in range(_ATTEMPTS):
            now, claim = self.database.now(), self.new_claim()
            new = {"digest": digest, "request": request, "scope": scope, "actor": actor, **claim}
            values = {**new, "expires_at": now + clock.milliseconds(KEPT), "now": now, "dead": dead}
            if taken := await self.database.write(self._taking, values):
                return RequestClaim(self, digest, claim, taken[0])
            row = await self.database.first(select(keys).where(keys.c.digest == digest))
            if row is None:
                continue
            if row.expires_at <= self.database.now():
                await self.database.execute(
                    delete(keys).where(keys.c.digest == digest, keys.c.expires_at == row.expires_at)
                )
            elif row.request != request:
                return Reused()
            elif row.owner == NOBODY:
                return Answered(row.response, row.scope)
            elif not has_ended(row.owner):
                return Running()
            else:
                dead = row.owner
        raise Unavailable("Too many requests use this idempotency key at once. Try again.", retry_after=1)

    async def _trim(self, actor: str) -> None:
        """Forget the oldest answers of an actor who has too many; what is running stays."""
        self._claims[actor] += 1
        if self._claims[actor] < _TRIM_EVERY:
            return
        del self._claims[actor]
        answered = select(keys.c.digest).where(keys.c.actor == actor, keys.c.owner == NOBODY)
        surplus = answered.order_by(keys.c.expires_at.desc()).offset(MAX_KEPT).limit(_MOST_TRIMMED)
        await self.database.execute(delete(keys).where(keys.c.digest.in_(surplus)))

    async def sweep(self) -> None:
        """Remove the keys that are older than a day."""
        self._claims.clear()
        expired = keys.c.expires_at <= self.database.now()
        await self.database.execute(delete(keys).where(expired), wait=SWEEP_WAIT)


def _taking(dialect: str) -> Executable:
    """Makes the row of a new key, or takes over that of the same request whose owner vanished: then `response` is set.

    Building it takes longer than the database needs.
    """
    taken_over = {
        **TAKEN_OVER,
        "response": func.coalesce(keys.c.response, _no_notes()),
        "scope": literal_column("excluded.scope"),
    }
    vanished = and_(
        keys.c.request == literal_column("excluded.request"),
        keys.c.owner != NOBODY,
        is_free(keys),
        keys.c.expires_at > bindparam("now"),
    )
    columns = ("digest", "request", "owner", "owned_until", "expires_at", "scope", "actor")
    statement = upsert(dialect, keys, taken_over, where=vanished)
    return statement.values({name: bindparam(name) for name in columns}).returning(keys.c.response, keys.c.expires_at)


def _no_notes() -> ColumnElement[bytes]:
    return literal(_NO_NOTES, LargeBinary)
