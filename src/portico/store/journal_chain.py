"""The chain of a process's rows in the journal, and the checkpoints that it signs.

The hash of a row is of its content and number, and of the hash of the row that the same process wrote before. The process
keeps its last hash in memory: rows that are removed behind its back are missing from the chain when it writes the next ones. The
numbers of all rows follow each other without a hole. A checkpoint says how far a chain goes, and how far those of other
processes go. See `journal_verification` for what can be found out with them.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from operator import itemgetter
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, update

from portico.runtime import clock
from portico.store.database import Database, insert_new
from portico.store.signatures import NotSigned, Signer
from portico.store.tables import journal, journal_proofs

CHECKPOINT: Final = "portico-journal-checkpoint"
BOUND: Final = "portico-journal-bound"
LOWER_BOUND: Final = "retention"
"""The name of the row with the lower bound of the journal."""
CHAINED: Final = ("chain", "position", "previous", "hash")
BEGIN: Final = bytes(32)
"""What the first row of a chain names as the previous hash."""
HOUR: Final = clock.milliseconds(timedelta(hours=1))
_NAMED_FOR: Final = 24 * HOUR
_MOST_NAMED: Final = 32
_LAST: Final = select(func.max(journal.c.number))
_values: Final = itemgetter(*(name for name in journal.c.keys() if name != "hash"))  # noqa: SIM118
_encode: Final = msgspec.json.Encoder().encode


class Head(msgspec.Struct, frozen=True, array_like=True):
    """The last row of a chain."""

    position: int
    number: int
    hash: bytes


class Checkpoint(msgspec.Struct, frozen=True):
    chain: str
    node: str
    at: int
    """When it was signed, in milliseconds since the epoch."""
    head: Head
    heads: dict[str, Head]
    """Of the chains of other processes that have signed within a day."""


class Bound(msgspec.Struct, frozen=True):
    """Where the journal begins."""

    before: int
    """Rows up to this number were there before rows were chained."""
    removed: int = 0
    """Rows up to this number were removed because of their age, or will be."""
    marks: list[tuple[int, int]] = []
    """Times, and the last number at each: rows up to it are older. A row itself could lie about its time."""
    since: int = 0
    """When the first row was chained, in milliseconds since the epoch. Earlier rows should be from before an upgrade."""

    @property
    def end(self) -> int:
        return max(self.before, self.removed)


def digest(row: Mapping[str, Any]) -> bytes:
    """The hash of a row. If a later version adds columns at the end, it leaves them out where they have no value."""
    return sha256(_encode(_values(row))).digest()


def store_proof(connection: Connection, name: str, signed: str, at: int) -> None:
    values = {"signed": signed, "at": at}
    if not connection.execute(update(journal_proofs).where(journal_proofs.c.name == name).values(values)).rowcount:
        connection.execute(insert(journal_proofs).values(name=name, **values))


class _Tried(msgspec.Struct):
    """What a transaction makes of the chain, if it is committed."""

    head: Head
    rows: Sequence[dict[str, Any]]
    signed: str | None = None
    signed_at: int = 0


class Chain:
    def __init__(self, node: str, now: Callable[[], int], signer: Signer | None) -> None:
        """Without a `signer`, rows are in no chain."""
        self._id = secrets.token_hex(16)
        self._node = node
        self._now = now
        self._signer = signer
        self._head = Head(0, 0, BEGIN)
        self._tried: _Tried | None = None
        self._signed_position = 0
        self._signed_at = 0
        self._unseen: str | None = None
        """A checkpoint that came with rows, and that `checkpoint` has not returned."""

    @property
    def signs_next(self) -> bool:
        """Whether the next rows come with a checkpoint, so that no chain is without one."""
        return self._signer is not None and self._now() - self._signed_at > HOUR

    def insert(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """Number and chain the rows, and insert those whose change has none yet. Writers take turns."""
        there = {id(row) for row in self._look_back(connection)}
        rows = [row for row in rows if id(row) not in there]
        if not rows:
            return
        last: int = connection.execute(_LAST).scalar() or 0
        if self._put(connection, rows, last) < len(rows):  # the others would be missing from the chain
            connection.execute(delete(journal).where(journal.c.number > last))
            self._tried = None
            if new := _new(connection, rows):
                self._put(connection, new, last)
        if self._tried and self._signer and self.signs_next:
            self._tried.signed_at = self._now()
            _begin(connection, self._signer, last, self._tried.signed_at)
            self._tried.signed = self._sign(connection, self._signer, self._tried.head)

    def inserted(self) -> None:
        """Called when that transaction was committed."""
        if tried := self._tried:
            self._tried, self._head = None, tried.head
            if tried.signed:
                self._signed_position, self._signed_at = tried.head.position, tried.signed_at
                self._unseen = tried.signed

    async def checkpoint(self, database: Database) -> str | None:
        """Sign how far the chain goes, if that was not done; returns a new checkpoint once it is durable."""
        unseen, self._unseen = self._unseen, None
        head, now, signer = self._head, self._now(), self._signer
        if signer is None or head.position == self._signed_position:
            return unseen
        signed = await database.at_once(lambda connection: self._sign(connection, signer, head))
        self._signed_position, self._signed_at = head.position, now
        return signed

    def _look_back(self, connection: Connection) -> Sequence[dict[str, Any]]:
        """The last transaction failed, but it may have been committed nevertheless: then returns its rows."""
        rows: Sequence[dict[str, Any]] = ()
        if tried := self._tried:
            last = select(journal.c.hash).where(journal.c.number == tried.head.number)
            if connection.execute(last).scalar() == tried.head.hash:
                self.inserted()
                rows = tried.rows
            self._tried = None
        return rows

    def _put(self, connection: Connection, rows: Sequence[dict[str, Any]], last: int) -> int:
        position, previous = self._head.position, self._head.hash
        for number, row in enumerate(rows, last + 1):
            row["number"] = number
            if self._signer:
                position += 1
                row["chain"], row["position"], row["previous"] = self._id, position, previous
                previous = row["hash"] = digest(row)
        self._tried = _Tried(Head(position, last + len(rows), previous), rows) if self._signer else None
        return insert_new(connection, journal, rows)

    def _sign(self, connection: Connection, signer: Signer, head: Head) -> str:
        now = self._now()
        others = (
            select(journal_proofs.c.signed)
            .where(journal_proofs.c.at > now - _NAMED_FOR, journal_proofs.c.name.not_in((self._id, LOWER_BOUND)))
            .order_by(journal_proofs.c.at.desc())
            .limit(_MOST_NAMED)
        )
        heads = {}
        for text in connection.execute(others).scalars():
            with suppress(NotSigned):
                other = signer.opened(CHECKPOINT, text, Checkpoint)
                heads[other.chain] = other.head
        signed = signer.sign(CHECKPOINT, Checkpoint(self._id, self._node, now, head, heads))
        store_proof(connection, self._id, signed, now)
        return signed


def _begin(connection: Connection, signer: Signer, last: int, now: int) -> None:
    """Sign where the chains of this journal begin, if none has begun."""
    if not connection.execute(select(journal_proofs.c.name).limit(1)).first():
        store_proof(connection, LOWER_BOUND, signer.sign(BOUND, Bound(before=last, since=now)), now)


def _new(connection: Connection, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without those whose change has a row. If another process took this one for dead and found another outcome, that is a
    further row, of no change."""
    changes = {row["change"] for row in rows} - {None}
    query = select(journal.c.change, journal.c.outcome).where(journal.c.change.in_(changes))
    known: dict[str | None, str] = {row.change: row.outcome for row in connection.execute(query)}
    new = []
    for row in rows:
        if known.get(row["change"]) == row["outcome"]:
            continue
        if row["change"] in known:
            row["change"] = None
        elif row["change"]:
            known[row["change"]] = row["outcome"]
        new.append(row)
    return new
