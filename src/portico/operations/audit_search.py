"""`AuditSearch`: what an administrator may find in the journal."""

from portico.accounts.connections import Connections
from portico.drive.connection_pool import prefix_of
from portico.model.errors import NotFound
from portico.model.paths import Path, Place
from portico.store.database import Database
from portico.store.journal_search import JournalPage, Search, find


class AuditSearch:
    def __init__(self, database: Database, connections: Connections) -> None:
        self._database = database
        self._connections = connections

    async def place(self, connection: str, path: Path) -> Place:
        """Where the journal has a path of a connection, below the connection's prefix.

        A connection that was deleted still has its lines. Its prefix is forgotten: it must be part of the path. `NotFound` if there
        are none.
        """
        prefix = Path()
        try:
            found = await self._connections.get(connection)
            connection, prefix = found.name, prefix_of(found)
        except NotFound:
            if not (await self.find(Search(place=Place(connection, prefix), is_below=True), 1)).lines:
                raise
        return Place(connection, path.under(prefix))

    async def find(self, search: Search, size: int, cursor: str | None = None) -> JournalPage:
        """As `journal_search.find`."""
        return await find(self._database, search, size=size, cursor=cursor)
