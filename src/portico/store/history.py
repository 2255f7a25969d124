"""What the journal says about changes of files: those of one actor, and those of all others."""

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Subquery, and_, func, not_, or_, select

from portico.observability.audit import COMMAND
from portico.store.database import AnyRow, Database
from portico.store.tables import journal

T = TypeVar("T")

MINUTE: Final = 60_000
"""Milliseconds."""
_PAGE: Final = 5000
_REMOVING: Final = ("upload", "delete", "copy", "move")
"""Actions that may replace or delete a file; a restore does no harm."""
_COLUMNS: Final = [
    journal.c[name]
    for name in (
        *("number", "change", "at", "user", "key", "link", "session", "action", "outcome"),
        *("connection", "place", "to_connection", "target", "before", "after", "kept", "line"),
    )
]
_PLACES: Final = [journal.c[name] for name in ("number", "connection", "place", "to_connection", "target", "kept")]
_AT_ONCE: Final = 500
_GREATEST: Final = 2**63 - 1
OVERTAKING: Final = 10_000
"""A row may have waited for the database while as many later ones were written."""


ACTOR_KINDS: Final = ("user", "key", "link", "session")
_MAKING: Final = ("share.add", "share.set", "key.add")
"""Actions that create a link or a key."""


class ActorFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of these, and others. A user's changes include those by keys, and not those of guests."""

    user: str | None = None
    key: str | None = None
    link: str | None = None
    session: str | None = None
    with_links: bool = False
    """Of a user: whether those of guests are included."""
    also: tuple["ActorFilter", ...] = ()

    def each(self) -> tuple["ActorFilter", ...]:
        return (msgspec.structs.replace(self, also=()), *self.also)

    def given(self) -> dict[str, str]:
        """The one, by its name."""
        values = {name: getattr(self, name) for name in ACTOR_KINDS}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def kind(self) -> str:
        """`user`, `key`, `link` or `session`."""
        return next(iter(self.given()))

    @property
    def name(self) -> str:
        """The user's name; otherwise the id."""
        return self.given()[self.kind]

    def condition(self) -> ColumnElement[bool]:
        return or_(*(one._condition() for one in self.each()))

    def _condition(self) -> ColumnElement[bool]:
        if self.user is not None:
            mine = journal.c.user == self.user.casefold()
            return mine if self.with_links else and_(mine, journal.c.link.is_(None))
        column: ColumnElement[Any] = journal.c[self.kind]
        condition: ColumnElement[bool] = column == self.name
        return condition


async def user_of(database: Database, actor: ActorFilter) -> str | None:
    """The user for whom the actor last did something."""
    mine = and_(actor.condition(), journal.c.user.is_not(None))
    if actor.session is None:  # otherwise an administrator has made or ended it
        mine = and_(mine, journal.c.user.not_like(f"{COMMAND}%"))
    row = await database.first(select(journal.c.user).where(mine).order_by(journal.c.number.desc()).limit(1))
    return row.user if row else None


async def has_lines(database: Database, actor: ActorFilter) -> bool:
    """Whether the journal knows the actor."""
    return await database.first(select(journal.c.number).where(actor.condition()).limit(1)) is not None


async def made_with(database: Database, actor: ActorFilter, actions: Collection[str], since: int) -> set[ActorFilter]:
    """Links and keys that the actor has made, the key that has made the actor's link, with what that one has made, and what the
    user of a session has undone with it: those with changes since a time."""
    mine = {*actor.each()}
    rewinds = await _rewinds(database, [one.session for one in mine if one.session]) - mine
    known, new = mine, await _made(database, mine) - mine
    if not (new or rewinds):
        return set()
    first = and_(journal.c.at >= since, journal.c.number >= await _first_since(database, since))
    changes = and_(first, journal.c.action.in_(actions))
    used = await _credentials(database, and_(changes, or_(journal.c.key.is_not(None), journal.c.link.is_not(None))))
    for ids in _some(sorted(one.session for one in rewinds if one.session)):
        rows = await database.fetch(select(journal.c.session).where(changes, journal.c.session.in_(ids)).distinct())
        used |= {ActorFilter(session=row.session) for row in rows}
    while new:
        known = known | new
        # Unused links say nothing more, and a thief may have made very many.
        new = await _made(database, {one for one in new if one.key or one in used}) - known
    return used & (known | rewinds) - mine


async def _made(database: Database, actors: Collection[ActorFilter]) -> set[ActorFilter]:
    """Keys and links that were made, or made others, together with these. Users are left out."""
    # Not by the indexes of actions and outcomes: other actors have far more rows there.
    action, outcome = func.coalesce(journal.c.action, ""), func.coalesce(journal.c.outcome, "")
    found: set[ActorFilter] = set()
    for column in (journal.c.key, journal.c.link, journal.c.session):
        for names in _some(sorted(one.given()[column.name] for one in actors if column.name in one.given())):
            making = and_(column.in_(names), action.in_(_MAKING), outcome == "done")
            found |= await _credentials(database, making)
    return found


async def _credentials(database: Database, condition: ColumnElement[bool]) -> set[ActorFilter]:
    rows = await database.fetch(select(journal.c.key, journal.c.link).where(condition).distinct())
    found = {ActorFilter(key=row.key) for row in rows if row.key}
    return found | {ActorFilter(link=row.link) for row in rows if row.link}


async def _rewinds(database: Database, sessions: Sequence[str]) -> set[ActorFilter]:
    """Those that the users of these sessions have begun: what they do has their id as its session."""
    mine = and_(journal.c.session.in_(sessions), func.coalesce(journal.c.action, "") == "rewind")
    lines = [msgspec.json.decode(row.line) for row in await database.fetch(select(journal.c.line).where(mine))]
    return {ActorFilter(session=line["subject"]) for line in lines if "subject" in line}


def _some(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """As many at a time as a query may have."""
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]


async def changes_by(
    database: Database,
    actor: ActorFilter,
    actions: Collection[str],
    since: int,
    until: int | None,
    *,
    most: int | None = None,
) -> list[AnyRow]:
    """The newest first. Times in milliseconds; `until` is not included. If there are more than `most`, some of them."""
    mine = [actor.condition(), journal.c.at >= since, journal.c.number >= await _first_since(database, since)]
    if until is not None:
        mine.append(journal.c.at < until)
    found: list[AnyRow] = []
    async for page in _pages(database, and_(*mine), actions):
        found += page
        if most is not None and len(found) > most:
            break
    return found


async def changes_after(
    database: Database,
    number: int,
    began: int,
    but: ActorFilter,
    actions: Collection[str],
    since: int,
    until: int | None,
) -> AsyncIterator[Sequence[AnyRow]]:
    """Where all others were made from a row on, or after the time at which its change began, page by page, the newest first: also
    the actor's own from another time. Most are elsewhere than the actor's: `changes_numbered` has all of a row."""
    mine = [func.coalesce(but.condition(), False), journal.c.at >= since]
    if until is not None:
        mine.append(journal.c.at < until)
    first = min(number, await _first_since(database, began))
    after = and_(journal.c.number >= first, or_(journal.c.number >= number, journal.c.at > began))
    async for page in _pages(database, and_(after, not_(and_(*mine))), actions, _PLACES):
        yield page


def numbers_since(at: int) -> Subquery:
    """Those of the first rows of this time or later; the least number of all is among them."""
    return select(journal.c.number).where(journal.c.at >= at).order_by(journal.c.at).limit(OVERTAKING).subquery()


async def _first_since(database: Database, at: int) -> int:
    """The least number of a row of this time or later, or a greater one than all if there is none: numbers follow time nearly, but
    not quite."""
    first = numbers_since(at)
    row = await database.first(select(func.min(first.c.number).label("number")))
    return row.number if row and row.number is not None else _GREATEST


async def changes_numbered(database: Database, numbers: Sequence[int]) -> list[AnyRow]:
    found: list[AnyRow] = []
    for some in _some(numbers):
        found += await database.fetch(select(*_COLUMNS).where(journal.c.number.in_(some)))
    return found


class Removals(msgspec.Struct, frozen=True):
    """What an actor has replaced or deleted in a minute."""

    actor: ActorFilter
    minute: int
    files: int


async def removals(database: Database, number: int, last: int, since: int) -> list[Removals]:
    """Of the rows after `number`, up to `last`, since a time. An actor is a key, a link or else a user; commands don't count. What
    users undo themselves does: a stolen session can do it, too."""
    number = max(number, await _first_since(database, since) - 1)
    if number >= last:
        return []
    columns = (journal.c.user, journal.c.key, journal.c.link, (journal.c.at - journal.c.at % MINUTE).label("minute"))
    for_good = and_(journal.c.action == "delete", journal.c.outcome == "done")
    query = (
        select(*columns, func.count().label("files"))
        .where(journal.c.number > number, journal.c.number <= last, journal.c.at >= since)
        .where(or_(journal.c.kept.is_not(None), for_good))
        .where(journal.c.action.in_(_REMOVING), journal.c.user.not_like(f"{COMMAND}%"))
        .group_by(*columns)
    )
    found = []
    for row in await database.fetch(query):
        actor = ActorFilter(key=row.key) if row.key else ActorFilter(link=row.link) if row.link else None
        found.append(Removals(actor or ActorFilter(user=row.user), row.minute, row.files))
    return found


async def subjects(database: Database, action: str, after: int) -> set[str]:
    """Of the lines with an action after a time."""
    query = select(journal.c.line).where(journal.c.action == action, journal.c.at > after)
    lines = [msgspec.json.decode(row.line) for row in await database.fetch(query)]
    return {str(line["subject"]) for line in lines if "subject" in line}


async def last_number(database: Database) -> int:
    row = await database.first(select(func.max(journal.c.number).label("last")))
    return (row and row.last) or 0


async def changes_since(
    database: Database, number: int, but: ActorFilter, actions: Collection[str]
) -> AsyncIterator[Sequence[AnyRow]]:
    """All but the actor's after a row, page by page, the newest first."""
    others = not_(func.coalesce(but.condition(), False))
    async for page in _pages(database, and_(journal.c.number > number, others), actions):
        yield page


async def _pages(
    database: Database,
    condition: ColumnElement[bool],
    actions: Collection[str],
    columns: Sequence[ColumnElement[Any]] = _COLUMNS,
) -> AsyncIterator[Sequence[AnyRow]]:
    query = select(*columns).where(condition, journal.c.action.in_(actions), journal.c.place.is_not(None))
    query = query.order_by(journal.c.number.desc()).limit(_PAGE)
    page = await database.fetch(query)
    while page:
        yield page
        if len(page) < _PAGE:
            return
        page = await database.fetch(query.where(journal.c.number < page[-1].number))
