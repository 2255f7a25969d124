import pathlib
import shutil
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import insert

from portico.drive.cursors import CursorSeal
from portico.model.paths import Path
from portico.providers.contract.provider import Provider
from portico.store.database import Database
from portico.store.tables import connections

from ...recorded_drive import RecordedDrive
from .actions import JournaledRecords, with_trash


@pytest.fixture
async def records(migrated_file: pathlib.Path, tmp_path: pathlib.Path) -> AsyncIterator[JournaledRecords]:
    shutil.copy(migrated_file, tmp_path / "trash.db")
    database = Database(f"sqlite:///{tmp_path / 'trash.db'}")
    row = {"name": "c", "kind": "local", "options": "{}", "revision": 1}
    await database.execute(insert(connections), row)
    records = JournaledRecords(database)
    yield records
    await records.journal.close()
    await database.close()


@pytest.fixture
def drive(provider: Provider, root: Path, seal: CursorSeal, records: JournaledRecords) -> RecordedDrive:
    return with_trash(provider, root, seal, records)
