"""What was done to the journal behind the back of the processes that write it, as far as its chains and checkpoints tell.

One look at all rows, in the order of their numbers, as of one moment. What was signed is compared afterwards, so that a row
that is missing or was changed is named once, and not by each row and checkpoint after it.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlalchemy import Column, String, Table, func, select

from portico.model import timestamps
from portico.store.database import Database
from portico.store.journal_chain import BEGIN, BOUND, CHAINED, CHECKPOINT, LOWER_BOUND, Bound, Checkpoint, Head, digest
from portico.store.schema import LONGEST
from portico.store.signatures import NotSigned, Signer
from portico.store.tables import journal, journal_proofs, users

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

_PAGE: Final = 1000
_AT_ONCE: Final = 200
_MOST_COMPARED: Final = 100
"""Changed rows that are compared with each other, to see whether some were exchanged."""
MOST_FINDINGS: Final = 1000
_COLUMNS: Final = journal.c.keys()
_texts: Final = itemgetter(*(column.name for column in journal.c if isinstance(column.type, String)))
"""In SQLite, they may hold bytes, which have the hash of their base64, and which no search finds."""

Row = Mapping[str, Any]


class Finding(msgspec.Struct, frozen=True):
    kind: str
    text: str
    first: int | None = None
    """The number of the line, or of the first of several."""
    last: int | None = None
    chain: str | None = None


class Report(msgspec.Struct):
    findings: list[Finding] = []
    more: int = 0
    """Findings beyond those."""
    lines: int = 0
    chains: int = 0
    since: int | None = None
    until: int | None = None
    unproven: int = 0
    """Lines after the last checkpoint of their process."""
    before: int = 0
    """Lines from before lines were chained."""
    chained_since: int | None = None

    def add(self, kind: str, text: str, first: int | None = None, last: int | None = None, chain: str = "") -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(Finding(kind, text, first, last or first, chain or None))
        else:
            self.more += 1


class _Seen(msgspec.Struct):
    """A chain, as far as its rows were seen."""

    position: int = 0
    number: int = 0
    hash: bytes | None = BEGIN
    """None if that row was changed."""
    troubles: int = 0
    """Rows that were found missing or changed until then, in all chains."""
    first: int = 0
    proven: int = 0


async def verify(database: Database, signer: Signer, logged: Iterable[str] = ()) -> Report:
    """`logged`: checkpoints in the audit log, from before this call."""
    async with database.snapshot(LONGEST) as connection:
        return await _Verification(connection, signer).run(logged)


class _Verification:
    def __init__(self, connection: "AsyncConnection", signer: Signer) -> None:
        self._connection = connection
        self._signer = signer
        self._report = Report()
        self._bound = Bound(0)
        self._chains: dict[str, _Seen] = {}
        self._changed: dict[int, Row] = {}
        self._troubles = 0
        self._next = 0
        self._last_at: Any = None
        self._unsigned: set[str] = set()
        self._nodes: dict[str, str] = {}
        self._gaps: dict[str, list[range]] = {}
        """Positions that are missing, by chain."""
        self._other: dict[str, Head] = {}
        """By chain, the first row that isn't as it was signed."""
        self._cut: dict[str, Head] = {}
        self._end: tuple[int, str] = (0, "")
        """The last number beyond the end that was signed, and the chain."""
        self._unchained: tuple[int, str] = (0, "")
        """The same, of lines that should be from before lines were chained."""

    async def run(self, logged: Iterable[str]) -> Report:
        report = self._report
        await self._read_bound()
        heads = await self._signed_heads()
        await self._walk()
        self._name_changed()
        await self._compare(heads)
        signed = {*self._nodes, *self._unsigned}
        await self._compare(self._logged(logged))
        for chain, head in self._other.items():
            text = f"Line {head.number}, or an earlier one of {self._process(chain)}, isn't the one that was signed."
            report.add("changed", text, head.number, chain=chain)
        last, chain = self._unchained
        if last:
            text = f"Lines up to {self._bound.before} were taken out of their chains: {self._process(chain)} had signed line {last}."
            report.add("unchained", text, self._bound.removed + 1, self._bound.before, chain)
        last, chain = self._end
        if last >= self._next:
            which = f"lines {self._next} to {last} are" if last > self._next else f"line {last} is"
            text = f"The end of the journal was cut off: {which} missing. {self._process(chain, 'The')} signed line {last}."
            report.add("cut", text, self._next, last, chain)
        for chain, head in sorted(self._cut.items(), key=lambda item: item[1].number):
            self._name_cut(chain, head)
        for chain, seen in self._chains.items():
            if chain not in signed:
                text = f"The checkpoint of {self._process(chain)} is missing; its lines can't be proven."
                report.add("checkpoint-missing", text, seen.number, chain=chain)
            report.unproven += seen.position - max(seen.proven, seen.first - 1)
        report.chains = len(self._chains)
        return report

    # What was signed

    async def _read_bound(self) -> None:
        stored = select(journal_proofs.c.signed).where(journal_proofs.c.name == LOWER_BOUND)
        signed = (await self._connection.execute(stored)).scalar()
        try:
            self._bound = self._signer.opened(BOUND, signed or "", Bound)
            self._report.chained_since = self._bound.since or None
            return
        except NotSigned:
            pass
        first = select(func.min(journal.c.number)).where(journal.c.chain.is_not(None))
        chained = (await self._connection.execute(first)).scalar()
        if chained:
            self._bound = Bound(chained - 1, chained - 1)
        else:
            self._bound = Bound((await self._connection.execute(select(func.max(journal.c.number)))).scalar() or 0)
        if signed is not None:
            self._report.add("forged", "The lower bound isn't signed with this gateway's key.")
        elif chained:
            self._report.add("checkpoint-missing", "The signed lower bound of the journal is missing.")
        elif self._bound.before:
            text = "No line of the journal is in a chain. That is so only until the first line after an upgrade."
            self._report.add("checkpoint-missing", text)
        elif (await self._connection.execute(select(users.c.id).limit(1))).first():
            text = "The journal is empty and was never signed, although there are users: all of it was removed."
            self._report.add("checkpoint-missing", text)

    async def _signed_heads(self) -> set[tuple[str, Head]]:
        found: set[tuple[str, Head]] = set()
        async for rows in self._pages(journal_proofs, journal_proofs.c.name, ""):
            for name, signed in ((row["name"], row["signed"]) for row in rows if row["name"] != LOWER_BOUND):
                try:
                    checkpoint = self._signer.opened(CHECKPOINT, signed, Checkpoint)
                    if checkpoint.chain != name:
                        raise NotSigned
                except NotSigned:
                    text = f"The checkpoint of the process {name} isn't signed with this gateway's key."
                    self._report.add("forged", text, chain=name)
                    self._unsigned.add(name)
                else:
                    self._nodes[name] = checkpoint.node
                    found.update(_heads(checkpoint))
        return found

    async def _pages(self, table: Table, key: Column[Any], after: Any) -> AsyncIterator[Sequence[Row]]:
        page = select(table).order_by(key).limit(_PAGE)
        while rows := (await self._connection.execute(page.where(key > after))).mappings().all():
            yield [dict(row) for row in rows]
            after = rows[-1][key.name]

    def _logged(self, texts: Iterable[str]) -> Iterator[tuple[str, Head]]:
        forged = 0
        for text in texts:
            try:
                checkpoint = self._signer.opened(CHECKPOINT, text, Checkpoint)
            except NotSigned:
                forged += 1
                continue
            self._nodes[checkpoint.chain] = checkpoint.node
            yield from _heads(checkpoint)
        if forged:
            self._report.add("forged", f"{forged} checkpoints in the log aren't signed with this gateway's key.")

    # The rows

    async def _walk(self) -> None:
        number, report = self._bound.end, self._report
        early = select(func.count(journal.c.number), func.count(journal.c.chain)).where(
            journal.c.number > self._bound.removed, journal.c.number <= number
        )
        report.before, chained = (await self._connection.execute(early)).one()
        if chained:
            text = f"The checkpoints of {chained} lines up to line {number} are missing."
            report.add("checkpoint-missing", text, number)
        self._next = number + 1
        async for rows in self._pages(journal, journal.c.number, number):
            for row in rows:
                self._see(row)
                self._last_at = row["at"]
            report.lines += len(rows)
            report.since, report.until = report.since or rows[0]["at"], rows[-1]["at"]

    def _see(self, row: Row) -> None:
        number = row["number"]
        if number > self._next:
            self._troubles += number - self._next
            when = (
                f"between {_time(self._last_at)} and {_time(row['at'])}"
                if self._last_at
                else f"before {_time(row['at'])}"
            )
            text = f"Line {self._next}, written {when}, was removed."
            if number - self._next > 1:
                text = f"The lines {self._next} to {number - 1}, written {when}, were removed."
            self._report.add("removed", text, self._next, number - 1)
        self._next = number + 1
        if row["hash"] is None:
            self._troubles += 1
            text = f"Line {number} is in no chain: it was inserted or changed, or a command without the secret key wrote it."
            self._report.add("unchained", text, number)
        elif not isinstance(row["position"], int) or any(map(_is_bytes, _texts(row))) or digest(row) != row["hash"]:
            self._troubles += 1
            if len(self._changed) < MOST_FINDINGS:
                self._changed[number] = row
            else:
                self._report.more += 1
            seen = self._chains.get(row["chain"])
            if seen and row["position"] == seen.position + 1:
                seen.position, seen.number, seen.hash = row["position"], number, None
                seen.troubles += 1  # this one; those before it may explain what is missing after it
        else:
            self._link(row)

    def _link(self, row: Row) -> None:
        """Compare a row with the one before it in its chain."""
        chain, number, position = row["chain"], row["number"], row["position"]
        seen = self._chains.get(chain)
        last = seen or _Seen()
        missing = position - last.position - 1
        if missing == 0:
            if last.hash is not None and row["previous"] != last.hash:
                text = f"Line {last.number or number} was changed: line {number} names another hash."
                self._report.add("changed", text, last.number or number, chain=chain)
        elif missing < 0:
            text = f"Line {number} is out of order: it is the {position}. of {self._process(chain)}, after the {last.position}."
            self._report.add("reordered", text, number, chain=chain)
        elif missing > self._troubles - last.troubles and (seen or not self._bound.removed):
            self._gaps.setdefault(chain, []).append(range(last.position + 1, position))
            text = (
                f"{missing} lines of {self._process(chain)} were removed between the lines {last.number} and {number}."
            )
            self._report.add("removed", text, last.number, number, chain)
        first = seen.first if seen else position
        self._chains[chain] = _Seen(position, number, row["hash"], self._troubles, first)

    def _name_changed(self) -> None:
        changed = self._changed.copy()
        for one, other in combinations(list(changed)[:_MOST_COMPARED], 2):
            if one in changed and other in changed and _exchanged(changed[one], changed[other]):
                self._report.add("reordered", f"The lines {one} and {other} were exchanged.", one, other)
                del changed[one], changed[other]
        for number, row in changed.items():
            self._report.add("changed", f"Line {number}, of {_time(row['at'])}, was changed.", number)

    # Both

    async def _compare(self, heads: Iterable[tuple[str, Head]]) -> None:
        columns = journal.c.number, journal.c.chain, journal.c.position, journal.c.hash
        left = iter(heads)
        while some := list(islice(left, _AT_ONCE)):
            numbers = {head.number for _, head in some}
            rows = await self._connection.execute(select(*columns).where(journal.c.number.in_(numbers)))
            found = {row.number: tuple(row)[1:] for row in rows.all()}
            for chain, head in some:
                if head.number > self._bound.end:
                    self._check(chain, head, found.get(head.number))
                elif head.number > self._bound.removed:
                    self._unchained = max(self._unchained, (head.number, chain))

    def _check(self, chain: str, head: Head, found: Sequence[Any] | None) -> None:
        seen = self._chains.get(chain)
        if found == (chain, head.position, head.hash) or head.number in self._changed:
            if seen:
                seen.proven = max(seen.proven, head.position)
        elif found is None:  # if it is not beyond the end, it was named as removed
            self._end = max(self._end, (head.number, chain))
        elif seen is None or seen.position < head.position:
            known = self._cut.get(chain, head)
            self._cut[chain] = max(known, head, key=lambda each: each.position)
        elif not any(head.position in gap for gap in self._gaps.get(chain, ())):
            self._other[chain] = min(self._other.get(chain, head), head, key=lambda each: each.number)

    def _name_cut(self, chain: str, head: Head) -> None:
        seen, process = self._chains.get(chain), self._process(chain)
        if seen is None:
            text = f"All lines of {process} are missing; the last one that was signed was line {head.number}."
        else:
            count = head.position - seen.position
            which = f"last {count} lines" if count > 1 else "last line"
            text = f"The {which} of {process} are missing; the last one that was signed was line {head.number}."
        self._report.add("cut", text, seen.number + 1 if seen else None, head.number, chain)

    def _process(self, chain: str, article: str = "the") -> str:
        node = f" on {self._nodes[chain]}" if chain in self._nodes else ""
        return f"{article} process {chain}{node}"


def _is_bytes(value: Any) -> bool:
    return isinstance(value, bytes)


def _heads(checkpoint: Checkpoint) -> Iterator[tuple[str, Head]]:
    yield checkpoint.chain, checkpoint.head
    yield from checkpoint.heads.items()


def _exchanged(one: Row, other: Row) -> bool:
    """Whether two rows are as they were written once one column, or all but their place in the chain, is exchanged."""
    names = [name for name in _COLUMNS if name != "hash" and one[name] != other[name]]
    content = [name for name in names if name not in ("number", *CHAINED)]
    return any(
        digest({**one, **{name: other[name] for name in some}}) == one["hash"]
        and digest({**other, **{name: one[name] for name in some}}) == other["hash"]
        for some in (content, *([name] for name in names))
    )


def _time(at: Any) -> str:
    """What is in the column may have been changed, too."""
    try:
        return timestamps.from_epoch(at)
    except (TypeError, ValueError, OverflowError):
        return "an unknown time"
