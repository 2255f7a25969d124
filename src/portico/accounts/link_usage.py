"""How share links are used: what is counted against their limits, and who did what with them."""

from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlalchemy import delete, func, insert, or_, select, update

from portico.model.errors import LimitReached
from portico.runtime import clock
from portico.store.database import SWEEP_WAIT, Database, upsert
from portico.store.tables import guest_downloads, share_accesses, share_links

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

MAX_ACCESSES: Final = 10_000
"""Accesses of one link that a sweep leaves."""
SAME_DOWNLOAD: Final = timedelta(hours=1)
"""How long requests of one guest for the same file count as one download: a player or a continued download asks for range
after range."""


class Access(msgspec.Struct, frozen=True):
    """What somebody did with a link."""

    at: int
    name: str
    address: str
    action: str
    path: str
    bytes: int | None


class LinkUsage:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def accesses(self, link_id: str, size: int, before: int | None = None) -> list[tuple[int, Access]]:
        """What was done with a link, the newest first, each with its number; those `before` a number."""
        query = select(share_accesses).where(share_accesses.c.link == link_id)
        if before is not None:
            query = query.where(share_accesses.c.id < before)
        rows = await self._database.fetch(query.order_by(share_accesses.c.id.desc()).limit(size))
        return [
            (row.id, Access(row.at, row.name, row.address, row.action, row.path, row.bytes)) for row in rows
        ]

    async def count_download(self, link_id: str, guest: bytes, file: str, access: Access) -> None:
        """Count a download, unless the guest has begun it before; `LimitReached` if there were enough of them."""
        now = self._database.now()
        key = sha256(guest + file.encode()).digest()
        since = now - clock.milliseconds(SAME_DOWNLOAD)
        mine = guest_downloads.c.digest == key
        if await self._database.first(select(guest_downloads.c.at).where(mine, guest_downloads.c.at > since)):
            return

        async def count(transaction: "AsyncConnection") -> None:
            # Of requests of the same guest at the same time, one inserts the row; the others wait for it.
            noted = (
                upsert(
                    self._database.dialect, guest_downloads, {"at": now}, where=guest_downloads.c.at <= since
                )
                .values(digest=key, guest=guest, at=now)
                .returning(guest_downloads.c.at)
            )
            if (await transaction.execute(noted)).first() is None:
                return
            left = or_(
                share_links.c.max_downloads.is_(None), share_links.c.downloads < share_links.c.max_downloads
            )
            counted = (
                update(share_links)
                .where(share_links.c.id == link_id, share_links.c.ended_at.is_(None), left)
                .values(downloads=share_links.c.downloads + 1)
                .returning(share_links.c.id)
            )
            if (await transaction.execute(counted)).first() is None:
                raise LimitReached("This link has been downloaded as often as its owner allows.")
            await transaction.execute(_noted(link_id, access))

        await self._database.transact(count)

    async def reserve_upload(self, link_id: str, size: int) -> None:
        """Count a file that is about to be stored; `LimitReached` if the link takes no more."""
        statement = (
            update(share_links)
            .where(
                share_links.c.id == link_id,
                share_links.c.ended_at.is_(None),
                or_(share_links.c.max_uploads.is_(None), share_links.c.uploads < share_links.c.max_uploads),
                or_(
                    share_links.c.max_bytes.is_(None),
                    share_links.c.bytes + size <= share_links.c.max_bytes,
                ),
            )
            .values(uploads=share_links.c.uploads + 1, bytes=share_links.c.bytes + size)
        )
        if not await self._database.execute(statement):
            raise takes_no_more()

    async def give_back(self, link_id: str, size: int) -> None:
        """The file was not stored after all."""
        await self._database.execute(
            update(share_links)
            .where(share_links.c.id == link_id)
            .values(uploads=share_links.c.uploads - 1, bytes=share_links.c.bytes - size)
        )

    async def note(self, link_id: str, access: Access) -> None:
        await self._database.execute(_noted(link_id, access))

    async def sweep(self, old: int | None) -> None:
        """Remove accesses up to this time, and those of which a link has too many."""
        if old is not None:
            await self._database.execute(
                delete(share_accesses).where(share_accesses.c.at <= old), wait=SWEEP_WAIT
            )
        number = func.row_number().over(
            partition_by=share_accesses.c.link, order_by=share_accesses.c.id.desc()
        )
        numbered = select(share_accesses.c.id, number.label("number")).subquery()
        surplus = select(numbered.c.id).where(numbered.c.number > MAX_ACCESSES)
        await self._database.execute(
            delete(share_accesses).where(share_accesses.c.id.in_(surplus)), wait=SWEEP_WAIT
        )


def takes_no_more() -> LimitReached:
    return LimitReached("This link takes no more files, or no more bytes, than its owner allows.")


def _noted(link_id: str, access: Access) -> Any:
    return insert(share_accesses).values(
        link=link_id,
        at=access.at,
        name=access.name,
        address=access.address[:64],
        action=access.action,
        path=access.path,
        bytes=access.bytes,
    )
