"""`find`: the lines of the journal that fit, newest first, page by page."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, CompoundSelect, Select, and_, func, intersect, or_, select, union_all

from portico.model.errors import InvalidCursor
from portico.model.paths import Place
from portico.store.database import AnyRow, Database
from portico.store.history import OVERTAKING, numbers_since
from portico.store.tables import journal

Where = ColumnElement[bool]
Numbers = Select[Any] | CompoundSelect[Any]

_NEWEST: Final = 10_000
"""Rows that are looked at one by one before an index of places is read, which is not in their order."""
_FEW: Final = 20_000
"""Rows that fit but for their place, which is then looked at in each."""
_FEW_PLACES: Final = 200_000
"""Rows that fit by their place, whose numbers are then compared with those of others."""
_ROW: Final = (
    *("number", "at", "action", "outcome", "connection", "place", "to_connection", "target"),
    *("kept", "before", "after", "line"),
)


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What a line must be like; what is None doesn't matter."""

    user: str | None = None
    """In any case of letters."""
    key: str | None = None
    """The id of an API key."""
    link: str | None = None
    """The id of a share link."""
    session: str | None = None
    address: str | None = None
    action: str | None = None
    outcome: str | None = None
    since: int | None = None
    """Milliseconds since the epoch."""
    until: int | None = None
    """As `since`; a line of this moment doesn't fit."""
    place: Place | None = None
    """What was changed, or became of it; from the top of the provider."""
    others: Sequence[Place] = ()
    """Further places, any of which fits as well as the first."""
    is_below: bool = False
    """Whether everything below the places fits, too."""


class JournalPage(msgspec.Struct, frozen=True):
    lines: Sequence[dict[str, Any]]
    cursor: str | None
    """For the next page; None after the last one."""


async def find(database: Database, search: Search, *, size: int, cursor: str | None = None) -> JournalPage:
    """No row is skipped or repeated while others are added. `InvalidCursor` for a text that is no cursor."""
    rows = await _Finder(database, search, ("number", "at", "line")).rows(size + 1, _number(cursor))
    following = str(rows[size - 1].number) if len(rows) > size else None
    return JournalPage([msgspec.json.decode(row.line) for row in rows[:size]], following)


async def find_rows(database: Database, search: Search, most: int, before: int | None = None) -> Sequence[AnyRow]:
    """The rows themselves, the newest first: those `before` a number."""
    return await _Finder(database, search, _ROW).rows(most, before)


def _number(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if cursor.isascii() and cursor.isdecimal() and len(cursor) < 19:  # as far as a number of the database goes
        return int(cursor)
    raise InvalidCursor("The cursor is not valid. Start again without a cursor.")


class _Finder:
    def __init__(self, database: Database, search: Search, columns: Sequence[str]) -> None:
        self._database = database
        self._columns = [journal.c[name] for name in columns]
        self._search = search
        user = search.user.casefold() if search.user is not None else None
        values = {**msgspec.structs.asdict(search), "user": user}
        names = ("user", "key", "link", "session", "address", "action", "outcome")
        self._equal = [journal.c[name] == values[name] for name in names if values[name] is not None]
        self._places = _at(search, database.dialect)
        # SQLite knows no numbers of rows: it would gather all rows of the place first.
        self._looked_at_places = _at(search, database.dialect, indexed=database.dialect != "sqlite")

    async def rows(self, most: int, before: int | None) -> Sequence[Any]:
        """Newest first. Each turn takes rows by their numbers, which time follows nearly, but not quite."""
        found: list[Any] = []
        bounds = await self._bounds()
        if bounds is None:
            return found
        low, high = bounds
        high = high if before is None else min(high, before)
        while len(found) < most:
            rows = await self._some(most, low, high)
            found += [row for row in rows if self._is_in_time(row.at)]
            if len(rows) < most:
                break
            high = rows[-1].number
        return found[:most]

    def _is_in_time(self, at: int) -> bool:
        since, until = self._search.since, self._search.until
        return (since is None or since <= at) and (until is None or at < until)

    async def _bounds(self) -> tuple[int, int] | None:
        """The least number of a row that fits in time, and one more than the greatest; None if none does."""
        at, number, since, until = journal.c.at, journal.c.number, self._search.since, self._search.until
        low: Any = select(func.min(number))
        high: Any = select(func.max(number))
        if since is not None:
            low = select(func.min(numbers_since(since).c.number))
        if until is not None:
            last = select(number).where(at < until).order_by(at.desc()).limit(OVERTAKING).subquery()
            high = select(func.max(last.c.number))
        found = await self._database.first(
            select(low.scalar_subquery().label("low"), high.scalar_subquery().label("high"))
        )
        if found is None or found.low is None or found.high is None:
            return None
        return found.low, found.high + 1

    async def _some(self, most: int, low: int, high: int) -> Sequence[Any]:
        """At least `most` rows that fit, but for their time; fewer only if there are no others."""
        if not self._places:
            return await self._numbered(self._numbers(low, high), most)
        newest = max(low, high - _NEWEST)
        rows = await self._looked_at(most, newest, high)
        if len(rows) == most or newest == low:
            return rows
        gathered = union_all(*(self._gathered(place, low, high) for place in self._places))
        if not self._equal:
            return await self._numbered(_newest_first(gathered), most)
        if await self._are_few(others := self._numbers(low, high), _FEW):
            return await self._looked_at(most, low, high, others)
        if await self._are_few(gathered, _FEW_PLACES):
            return await self._numbered(self._numbers(low, high, select(gathered.subquery().c.number)), most)
        return await self._looked_at(most, low, high)

    async def _are_few(self, numbers: Numbers, most: int) -> bool:
        counted = await self._database.first(select(func.count()).select_from(numbers.limit(most + 1).subquery()))
        return counted is not None and counted[0] <= most

    def _numbers(self, low: int, high: int, *others: Select[Any]) -> Numbers:
        """Those of the rows that are as wanted, the newest first, by one index for each column."""
        wanted = [select(journal.c.number).where(each, *_between(low, high)) for each in self._equal]
        first, *more = [*wanted, *others] or [select(journal.c.number).where(*_between(low, high))]
        if not more:
            return _newest_first(first)
        if self._database.dialect == "sqlite":
            return _newest_first(intersect(first, *more))  # merged in this order, and no further than wanted
        # PostgreSQL merges these, but no INTERSECT.
        return _newest_first(first.where(*(journal.c.number.in_(each) for each in more)))

    def _gathered(self, place: Where, low: int, high: int) -> Select[Any]:
        """The sum keeps the database from looking at all rows in their order instead."""
        return select((journal.c.number + 0).label("number")).where(place, *_between(low, high))

    async def _numbered(self, numbers: Numbers, most: int) -> Sequence[Any]:
        """The rows of the first numbers, which have some twice if both of their places fit, for each place that is wanted."""
        times = 2 * max(1, len(self._search.others) + bool(self._search.place)) if self._places else 1
        wanted = journal.c.number.in_(numbers.limit(times * most))
        query = select(*self._columns).where(wanted)
        return await self._database.fetch(query.order_by(journal.c.number.desc()))

    async def _looked_at(self, most: int, low: int, high: int, numbers: Numbers | None = None) -> Sequence[Any]:
        """Row by row, in the order of their numbers, or of those that one of the other columns has; or these."""
        equal = self._equal if numbers is None else [journal.c.number.in_(numbers.limit(_FEW))]
        query = select(*self._columns)
        query = query.where(*equal, or_(*self._looked_at_places), *_between(low, high))
        return await self._database.fetch(query.order_by(journal.c.number.desc()).limit(most))


def _newest_first(numbers: Numbers) -> Numbers:
    return numbers.order_by(numbers.selected_columns.number.desc())


def _between(low: int, high: int) -> tuple[Where, Where]:
    return journal.c.number >= low, journal.c.number < high


def _at(search: Search, dialect: str, *, indexed: bool = True) -> list[Where]:
    """The wanted places, and everything below them, each as a range of an index, for both places of a row."""
    places = [*([search.place] if search.place else []), *search.others]
    return [condition for place in places for condition in _at_place(place, search, dialect, indexed=indexed)]


def _at_place(place: Place, search: Search, dialect: str, *, indexed: bool) -> Iterator[Where]:
    path = str(place.path)
    above, below = ("~>~", "~<~") if dialect == "postgresql" else (">", "<")  # byte by byte, as in the index
    for connection, column in ((journal.c.connection, journal.c.place), (journal.c.to_connection, journal.c.target)):
        text: Any = column if indexed else func.coalesce(column, "")
        yield and_(connection == place.connection, text == path)
        if search.is_below:
            start = path.rstrip("/")
            inner = text.bool_op(above)(f"{start}/"), text.bool_op(below)(f"{start}0")  # "0" is next to "/"
            yield and_(connection == place.connection, *inner)
