"""Batched lookups: rows that are looked for while others are being read are read together, with one query."""

import asyncio
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Select, bindparam

from portico.store.database import AnyRow, Database

Key = TypeVar("Key")

_AT_ONCE = 4
"""Queries that run at the same time. A lookup beyond them waits for the next batch."""
_BATCH = 200


_Batch = dict[Key, list[asyncio.Future[AnyRow | None]]]


class BatchedLookups(Generic[Key]):
    """One row for each key. With few callers, each has a query of its own and waits for nobody."""

    def __init__(self, database: Database, query: Select[Any], column: ColumnElement[Key]) -> None:
        self._database = database
        self._one = query.where(column == bindparam("key"))
        self._many = query.add_columns(column.label("lookup_key")).where(column.in_(bindparam("keys", expanding=True)))
        self._running = 0
        self._waiting: _Batch[Key] = {}
        self._batches: set[asyncio.Task[None]] = set()

    async def first(self, key: Key) -> AnyRow | None:
        """The row of the key, as it is at some moment from now on."""
        if self._running >= _AT_ONCE:
            future: asyncio.Future[AnyRow | None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(key, []).append(future)
            return await future
        self._running += 1
        try:
            return await self._database.first(self._one, {"key": key})
        finally:
            self._ended()

    def _ended(self) -> None:
        self._running -= 1
        if self._waiting:
            self._running += 1
            keys = list(self._waiting)[:_BATCH]
            task = asyncio.create_task(self._read({key: self._waiting.pop(key) for key in keys}))
            self._batches.add(task)
            task.add_done_callback(self._batches.discard)

    async def _read(self, batch: _Batch[Key]) -> None:
        try:
            rows = await self._database.fetch(self._many, {"keys": list(batch)})
            found = {row.lookup_key: row for row in rows}
            for key, future in _unanswered(batch):
                future.set_result(found.get(key))
        except Exception as error:
            for _, future in _unanswered(batch):
                future.set_exception(error)
        finally:
            self._ended()


def _unanswered(batch: _Batch[Key]) -> Iterator[tuple[Key, asyncio.Future[AnyRow | None]]]:
    """The futures with their keys, but for those whose callers have gone."""
    for key, futures in batch.items():
        for future in futures:
            if not future.done():
                yield key, future
