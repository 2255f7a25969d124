"""SQLite without threads and greenlets, for the command line.

It has the part of SQLAlchemy's asynchronous engine that `Database` and its callers use. Importing that engine imports
the whole ORM, an eighth of the cost of a command.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

T = TypeVar("T")


class BlockingEngine:
    def __init__(self, engine: Engine) -> None:
        self.sync_engine = engine
        self.dialect = engine.dialect
        self.url = engine.url

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator["BlockingConnection"]:
        with self.sync_engine.connect() as connection:
            yield BlockingConnection(connection)

    async def dispose(self) -> None:
        self.sync_engine.dispose()


class BlockingConnection:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[None]:
        with self._connection.begin():
            yield

    async def execute(self, *arguments: Any) -> Any:
        return self._connection.execute(*arguments)

    async def scalars(self, *arguments: Any) -> Any:
        return self._connection.scalars(*arguments)

    async def exec_driver_sql(self, *arguments: Any) -> Any:
        return self._connection.exec_driver_sql(*arguments)

    async def run_sync(self, work: Callable[[Connection], T]) -> T:
        return work(self._connection)
