import asyncio
from pathlib import Path

from portico.accounts.vault import SecretKey
from portico.settings import settings
from portico.store.database import Database
from portico.store.encrypted_columns import Sealed
from portico.store.uploads import OPEN, UploadRecord, Uploads

from .conftest import Portico

ID = "0" * 31 + "7"


async def add(home: Path) -> None:
    chosen = settings.load(home, {})
    database = Database(chosen.database_url)
    seal = Sealed(SecretKey.load(chosen.secret_key_file, {}).derive("uploads"))
    now = database.now()
    record = UploadRecord(ID, 1, "local", OPEN, "/in/a.bin", 10, 4, b"{}", b"state", now, now + 60_000)
    await Uploads(database, seal, "node").add(record)
    await database.close()


def test_uploads_are_listed_and_ended(portico: Portico, home: Path) -> None:
    portico("user", "add", "ann", "--password-stdin", stdin="correct horse")
    assert portico("uploads", "list").out == "There are no unfinished uploads.\n"
    asyncio.run(add(home))
    (listed,) = portico("uploads", "list", "--json").lines
    assert (listed["id"], listed["user"], listed["path"]) == (ID, "ann", "/in/a.bin")
    assert (listed["received"], listed["size"], listed["sending"]) == (4, 10, False)
    assert "/in/a.bin" in portico("uploads", "list").out
    assert portico("uploads", "end", ID).code == 0
    assert "upload-end" in (home / "audit.log").read_text()
    assert portico("uploads", "list", "--json").lines == []
    assert portico("uploads", "end", ID).code == 1
    missing = portico("uploads", "end", "nothing")
    assert missing.code == 1
    assert "portico uploads list" in missing.err
