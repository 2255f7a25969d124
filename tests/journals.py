"""The journal, as tests look at it."""

from typing import Any

from portico.store.database import Database
from portico.store.journal_search import Search, find


async def lines_of(database: Database, **wanted: Any) -> list[dict[str, Any]]:
    """The lines that fit, the oldest first."""
    page = await find(database, Search(**wanted), size=1000)
    assert page.cursor is None
    return [*reversed(page.lines)]
