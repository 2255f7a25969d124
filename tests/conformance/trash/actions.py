"""What the tests of the trash do."""

from datetime import timedelta

from portico.drive.cursors import CursorSeal
from portico.drive.drive import Drive
from portico.drive.trash import DriveTrash
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS
from portico.providers.contract.provider import Provider
from portico.store.leases import Leases
from portico.store.trash import Trashed, TrashRecords

from ..actions import put

KEEP = timedelta(days=30)
FILES = {"a.txt": b"a", "b/c.txt": b"c" * 70_000, "b/empty": b"", "b/d/e ö.txt": b"e"}


def with_trash(provider: Provider, root: Path, seal: CursorSeal, records: TrashRecords) -> Drive:
    """As another request has it."""

    def trash() -> DriveTrash:
        leases = Leases(records._database, "node")
        return DriveTrash(provider, records, leases, "c", prefix=Path(), root=root, user="alice", keep=KEEP)

    return Drive(provider, root, DEFAULT_RIGHTS, seal, trash=trash)


async def trashed(drive: Drive) -> list[Trashed]:
    return (await drive.trash.page(100))[0]


async def newest(drive: Drive) -> Trashed:
    return (await trashed(drive))[0]


async def put_tree(drive: Drive, folder: str) -> None:
    for path, data in FILES.items():
        await put(drive, f"{folder}/{path}", data)
