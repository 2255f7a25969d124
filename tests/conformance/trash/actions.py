"""What the tests of the trash do."""

from datetime import timedelta

from portico.drive.cursors import CursorSeal
from portico.drive.trash import DriveTrash
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS
from portico.providers.contract.provider import Provider
from portico.store.database import Database
from portico.store.leases import Leases
from portico.store.trash import Trashed, TrashRecords

from ...recorded_drive import RecordedDrive, journal_of, recordings_in
from ..actions import put

KEEP = timedelta(days=30)
FILES = {"a.txt": b"a", "b/c.txt": b"c" * 70_000, "b/empty": b"", "b/d/e ö.txt": b"e"}


class JournaledRecords(TrashRecords):
    """With the journal that adds the rows."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.journal = journal_of(database)


def with_trash(provider: Provider, root: Path, seal: CursorSeal, records: JournaledRecords) -> RecordedDrive:
    """As another request has it."""

    def trash() -> DriveTrash:
        leases = Leases(records._database, "node")
        return DriveTrash(provider, records, leases, "c", prefix=Path(), root=root, user="alice", keep=KEEP)

    return RecordedDrive(provider, root, DEFAULT_RIGHTS, seal, trash=trash, record=recordings_in(records.journal))


async def trashed(drive: RecordedDrive) -> list[Trashed]:
    return (await drive.trash.page(100))[0]


async def newest(drive: RecordedDrive) -> Trashed:
    return (await trashed(drive))[0]


async def put_tree(drive: RecordedDrive, folder: str) -> None:
    for path, data in FILES.items():
        await put(drive, f"{folder}/{path}", data)
