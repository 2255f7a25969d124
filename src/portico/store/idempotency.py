"""Idempotency keys: of all requests under one key, on any worker and node, one at a time runs, until one has an answer.

A row is owned while its request runs. The owner renews it; if the owner vanishes, the row can be taken over, at once if it
ran on this machine. Without an owner, the row holds the answer. Until then `response` holds notes of what is being
done, for the request that takes over.
"""

import os
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
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
from portico.runtime import clock, processes
from portico.runtime.processes import ProcessState
from portico.store.database import SWEEP_WAIT, AnyRow, Database, upsert
from portico.store.heartbeats import Renewals
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
_NOBODY: Final = ""
_NO_NOTES: Final = b"{}"

_ANSWERING: Final = (
    update(keys)
    .where(keys.c.digest == bindparam("key"), keys.c.owner == bindparam("me"))
    .values(owner=bindparam("nobody"), response=bindparam("answer"))
)

log = structlog.get_logger()


class Answered(msgspec.Struct, frozen=True):
    response: bytes
    scope: str | None
    """As the first request had it; None in a row of an older version."""


class Running(msgspec.Struct, frozen=True):
    """Another request under this key."""


class Reused(msgspec.Struct, frozen=True):
    """The key belongs to a request that differs."""


class Claim:
    """A key that this request owns, renewed until it is answered or given up."""

    def __init__(
        self,
        database: Database,
        renewals: Renewals["Claim"],
        digest: bytes,
        owner: str,
        row: AnyRow | None,
        lifetime: timedelta,
    ) -> None:
        self.digest = digest
        self.owner = owner
        self.owned_until = database.now() + clock.milliseconds(lifetime)
        self._database = database
        self._renewals = renewals
        self._lifetime = lifetime
        renewals.add(self)
        notes = None if row is None else row.response
        self.repeated = notes is not None
        """Whether an earlier request under this key was interrupted: it may have been carried out, in part or wholly."""
        self.notes: dict[str, str] = msgspec.json.decode(notes or _NO_NOTES, type=dict[str, str])
        """What was noted so far, also by earlier requests."""
        expires_at = database.now() + clock.milliseconds(KEPT) if row is None else row.expires_at
        self.first_at: int = expires_at - clock.milliseconds(KEPT)
        """When the first request under this key arrived, by the database's clock."""

    async def is_owned(self) -> bool:
        """Whether nobody has taken the key over: this process may have been suspended for long."""
        return self._database.now() < self.owned_until or await self._extend()

    async def note(self, notes: Mapping[str, str]) -> bool:
        """Keep these in case this process vanishes; False if the key is no longer owned."""
        self.notes |= notes
        return await self._change(response=msgspec.json.encode(self.notes))

    async def answer(self, response: bytes) -> None:
        await self._renewals.remove(self)
        try:
            values = {"key": self.digest, "me": self.owner, "nobody": _NOBODY, "answer": response}
            await self._database.execute(_ANSWERING, values)
        except PorticoError as error:
            # It is done, and the client learns that. A repeated request finds the row as after a crash.
            log.warning("idempotency-key-not-answered", cause=error.cause)

    async def give_up(self, *, begun: bool) -> None:
        """The next request under this key runs: as a repeated one if this one has begun to change something."""
        await self._renewals.remove(self)
        try:
            if begun or self.repeated:
                await self._change(owned_until=0, response=func.coalesce(keys.c.response, _no_notes()))
            else:
                await self._database.execute(delete(keys).where(self._mine))
        except PorticoError as error:  # then it expires
            log.warning("idempotency-key-not-released", cause=error.cause)

    @property
    def _mine(self) -> ColumnElement[bool]:
        return and_(keys.c.digest == self.digest, keys.c.owner == self.owner)

    async def _change(self, **values: Any) -> bool:
        return bool(await self._database.execute(update(keys).where(self._mine).values(values)))

    async def _extend(self) -> bool:
        end = self._database.now() + clock.milliseconds(self._lifetime)
        if not await self._change(owned_until=end):
            return False
        self.owned_until = end
        return True


class IdempotencyKeys:
    def __init__(self, database: Database, lifetime: timedelta = LIFETIME) -> None:
        self._database = database
        self._lifetime = lifetime
        self._taking = _taking(database.dialect)
        self._claims: Counter[str] = Counter()
        """Of each actor, since surplus answers were last removed."""
        self._renewals = Renewals("idempotency-key", lifetime / _RENEWALS, self._renew)

    async def claim(
        self, digest: bytes, request: bytes, scope: str, actor: str
    ) -> Claim | Answered | Running | Reused:
        """`digest` identifies the key, `request` the request under it.

        `scope`: what its sender may do. `actor`: those whose answers are limited together.
        """
        await self._trim(actor)
        owner = f"{processes.name_of(os.getpid())}-{secrets.token_hex(8)}"
        for _ in range(_ATTEMPTS):
            if taken := await self._take(digest, request, owner, scope, actor):
                row = taken[0] if taken[0].response is not None else None
                return Claim(self._database, self._renewals, digest, owner, row, self._lifetime)
            row = await self._database.first(select(keys).where(keys.c.digest == digest))
            if row is None:
                continue
            if row.expires_at <= self._database.now():
                await self._database.execute(
                    delete(keys).where(keys.c.digest == digest, keys.c.expires_at == row.expires_at)
                )
            elif row.request != request:
                return Reused()
            elif row.owner == _NOBODY:
                return Answered(row.response, row.scope)
            elif processes.state_of(row.owner) is not ProcessState.ENDED:
                return Running()
            else:
                mine = and_(keys.c.digest == digest, keys.c.owner == row.owner)
                await self._database.execute(update(keys).where(mine).values(owned_until=0))
        raise Unavailable("Many requests use this idempotency key at once; try again.", retry_after=1)

    async def _renew(self, held: Sequence[Claim]) -> list[Claim]:
        end = self._database.now() + clock.milliseconds(self._lifetime)
        mine = and_(
            keys.c.digest.in_([claim.digest for claim in held]),
            keys.c.owner.in_([claim.owner for claim in held]),
        )
        statement = update(keys).where(mine).values(owned_until=end).returning(keys.c.owner)
        owners = {row.owner for row in await self._database.write(statement)}
        kept = [claim for claim in held if claim.owner in owners]
        for claim in kept:
            claim.owned_until = end
        return kept

    async def _trim(self, actor: str) -> None:
        """Forget the oldest answers of an actor who has too many; what is running stays."""
        self._claims[actor] += 1
        if self._claims[actor] < _TRIM_EVERY:
            return
        del self._claims[actor]
        answered = select(keys.c.digest).where(keys.c.actor == actor, keys.c.owner == _NOBODY)
        surplus = answered.order_by(keys.c.expires_at.desc()).offset(MAX_KEPT).limit(_MOST_TRIMMED)
        await self._database.execute(delete(keys).where(keys.c.digest.in_(surplus)))

    async def _take(self, digest: bytes, request: bytes, owner: str, scope: str, actor: str) -> list[AnyRow]:
        """The row, if the key is new, or was of the same request and its owner vanished: then `response` is set."""
        now = self._database.now()
        row = {
            "digest": digest,
            "request": request,
            "owner": owner,
            "owned_until": now + clock.milliseconds(self._lifetime),
            "expires_at": now + clock.milliseconds(KEPT),
            "scope": scope,
            "actor": actor,
            "now": now,
        }
        return list(await self._database.write(self._taking, row))

    async def sweep(self) -> None:
        """Remove the keys that are older than a day."""
        self._claims.clear()
        expired = keys.c.expires_at <= self._database.now()
        await self._database.execute(delete(keys).where(expired), wait=SWEEP_WAIT)


def _taking(dialect: str) -> Executable:
    """The statement behind `_take`. Building it takes longer than the database needs."""
    taken_over = {
        "owner": literal_column("excluded.owner"),
        "owned_until": literal_column("excluded.owned_until"),
        "response": func.coalesce(keys.c.response, _no_notes()),
        "scope": literal_column("excluded.scope"),
    }
    vanished = and_(
        keys.c.request == literal_column("excluded.request"),
        keys.c.owner != _NOBODY,
        keys.c.owned_until <= bindparam("now"),
        keys.c.expires_at > bindparam("now"),
    )
    columns = ("digest", "request", "owner", "owned_until", "expires_at", "scope", "actor")
    statement = upsert(dialect, keys, taken_over, where=vanished)
    return statement.values({name: bindparam(name) for name in columns}).returning(
        keys.c.response, keys.c.expires_at
    )


def _no_notes() -> ColumnElement[bytes]:
    return literal(_NO_NOTES, LargeBinary)
