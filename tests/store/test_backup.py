"""Backups and copies of a database: both ways between SQLite and PostgreSQL, and everything that can be wrong."""

import errno
import gzip
import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from argon2.low_level import hash_secret_raw
from msgspec.structs import asdict
from sqlalchemy import insert, select, text, update

from portico.model.errors import NotPossible, Unavailable
from portico.store import backup_file, dump
from portico.store.backup_file import Facts
from portico.store.database import Database
from portico.store.dump import MOMENTARY, Batch, Content, Counts, Misfit, Mismatch, NotEmpty, load
from portico.store.schema import LockLimits, is_current, migrate, newest_revision
from portico.store.tables import cluster, journal, leases, metadata, users

from ..servers.postgres import PostgresServer
from .next_version import NEXT, ROWS, next_version

FACTS = Facts("1.0", newest_revision(), "2026-03-01T10:00:00.000Z", "f1", {"secret.key": "canary"})
Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture
def other_url(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> str:
    """Of a database of the other kind that is empty, without tables."""
    if url.startswith("sqlite"):
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_database()
    return f"sqlite:///{tmp_path / 'other.db'}"


@pytest.fixture
async def filled(database: Database, url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with rows in every table, more than one batch of some."""
    monkeypatch.setattr(dump, "_BATCH", 3)
    async with database.begin() as transaction:
        for name, rows in ROWS.items():
            await transaction.execute(insert(metadata.tables[name]), rows)
        await transaction.execute(insert(cluster), [{"name": "secret-key", "value": "f1"}])
        await transaction.execute(insert(leases), [{"name": "l", "owner": "n", "owned_until": 2**41}])
        line = {"node": "n", "user": None, "action": "a", "outcome": "done", "line": '{"x": "ü"}'}
        await transaction.execute(
            insert(journal), [{"number": number, "at": number, **line} for number in range(1, 11)]
        )
    return url


async def rows_of(url: str) -> Rows:
    database = Database(url)
    try:
        return {
            each.name: sorted(
                [dict(row._mapping) for row in await database.fetch(select(each))], key=lambda row: repr(row)
            )
            for each in metadata.sorted_tables
        }
    finally:
        await database.close()


async def save(url: str, file: Path, passphrase: str | None = None) -> Counts:
    async with dump.read(url, without=MOMENTARY) as found:
        return await backup_file.write(file, FACTS, found, passphrase)


async def test_a_copy_has_every_row(filled: str, other_url: str) -> None:
    before = await rows_of(filled)
    async with dump.read(filled) as found:
        counts = await load(other_url, found)
    assert await rows_of(other_url) == before == await rows_of(filled)
    assert counts == {name: len(rows) for name, rows in before.items()}
    assert counts["journal"] == 10
    copy = Database(other_url)
    assert await is_current(copy)
    new = {key: value for key, value in ROWS["users"][0].items() if key != "id"}
    await copy.execute(insert(users).values(**{**new, "name_key": "next"}))
    row = await copy.first(select(users.c.id).where(users.c.name_key == "next"))
    assert row is not None
    assert row.id == 10
    await copy.close()


@pytest.mark.parametrize("passphrase", [None, "correct horse"])
async def test_a_backup_has_every_row_except_for_sessions(
    filled: str, other_url: str, tmp_path: Path, passphrase: str | None
) -> None:
    file = tmp_path / "portico.backup"
    counts = await save(filled, file, passphrase)
    assert file.stat().st_mode & 0o777 == 0o600
    assert backup_file.is_encrypted(file) is (passphrase is not None)
    assert (b"canary" in file.read_bytes()) is False
    found = backup_file.read(file, passphrase)
    assert (found.facts, found.counts) == (FACTS, counts)
    assert "canary" not in repr(found)
    assert await load(other_url, found.content()) == counts
    before, after = await rows_of(filled), await rows_of(other_url)
    for name in before:
        assert after[name] == ([] if name in MOMENTARY else before[name]), name


async def test_a_new_database_without_rows_can_be_copied(url: str, other_url: str) -> None:
    async with dump.read(url) as found:
        assert sum((await load(other_url, found)).values()) == 1  # the oldest code


async def test_a_backup_is_of_one_moment_and_nobody_waits_for_it(filled: str, tmp_path: Path) -> None:
    writer = Database(filled)
    async with dump.read(filled) as found:
        batches = found.batches()
        first = await anext(batches)
        await writer.execute(update(users).values(name="changed"))
        await writer.execute(text("DELETE FROM journal"))
        rest = [batch async for batch in batches]
    await writer.close()
    counts: Counts = {}
    for batch in [first, *rest]:
        counts[batch.table] = counts.get(batch.table, 0) + len(batch.rows)
        if batch.table == "users":
            assert "changed" not in [value for row in batch.rows for value in row]
    assert counts["journal"] == 10


async def test_a_database_with_rows_is_replaced_only_if_wanted(filled: str, database: Database, other_url: str) -> None:
    migrate(other_url)
    async with dump.read(other_url) as nothing:
        with pytest.raises(NotEmpty, match=r"it has rows in cluster \(1\)"):
            await load(filled, nothing)
        assert len((await rows_of(filled))["users"]) == 2
        await load(filled, nothing, replace=True)
    assert (await rows_of(filled))["users"] == []


async def test_the_next_version_saves_and_migrates_content_of_this_one(
    filled: str, database: Database, other_url: str, tmp_path: Path
) -> None:
    newest, before = newest_revision(), await rows_of(filled)
    with next_version(tmp_path):
        async with dump.read(filled) as found:
            assert found.revision == newest
            await load(other_url, found)
        assert not await is_current(database)
        other = Database(other_url)
        assert (await other.state()).revision == NEXT
        await other.close()
    assert await rows_of(other_url) == before


async def test_older_databases_and_older_content_are_refused_with_the_commit_that_has_them(
    filled: str, database: Database, other_url: str
) -> None:
    async with dump.read(filled) as found:
        with pytest.raises(NotPossible, match=r"backup is too old .*\(schema 0009\): .* restore it with commit "):
            await load(other_url, Content("0009", found.batches))
    await database.execute(text("UPDATE alembic_version SET version_num = '0009'"))
    with pytest.raises(NotPossible, match=r"is too old .*\(schema 0009\)"):
        async with dump.read(filled):
            pass


async def test_newer_databases_and_newer_content_are_refused(filled: str, database: Database, other_url: str) -> None:
    async with dump.read(filled) as found:
        with pytest.raises(NotPossible, match="newer version of Portico"):
            await load(other_url, Content("9999", found.batches))
    await database.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NotPossible, match="run this command with that version"):
        async with dump.read(filled):
            pass
    with pytest.raises(NotPossible, match="newer version of Portico"):
        await load(filled, Content(newest_revision(), found.batches), replace=True)
    assert len((await rows_of(filled))["users"]) == 2


async def test_a_failure_midway_changes_nothing(filled: str, tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[Batch]:
        yield Batch("cluster", ("name", "value"), [("a", "b")])
        raise backup_file.Damaged(tmp_path, "is damaged")

    before = await rows_of(filled)
    with pytest.raises(backup_file.Damaged):
        await load(filled, Content(newest_revision(), broken), replace=True)
    assert await rows_of(filled) == before
    new = tmp_path / "new.db"
    with pytest.raises(backup_file.Damaged):
        await load(f"sqlite:///{new}", Content(newest_revision(), broken))
    assert not list(tmp_path.glob("new.db*"))


async def test_rows_that_do_not_arrive_are_noticed(
    filled: str, other_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forgetful(*_: object) -> Counts:
        return {"users": 2}

    monkeypatch.setattr(dump, "_insert", forgetful)
    async with dump.read(filled) as found:
        with pytest.raises(Mismatch, match="0 rows instead of 2"):
            await load(other_url, found)


async def test_a_database_without_tables_has_nothing_to_save(postgres: PostgresServer, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    for url in (postgres.new_database(), f"sqlite:///{tmp_path / 'empty.db'}"):
        with pytest.raises(NotPossible, match="no Portico tables yet"):
            async with dump.read(url):
                pass
    with pytest.raises(Unavailable):
        async with dump.read(f"sqlite:///{tmp_path / 'missing.db'}"):
            pass
    assert not (tmp_path / "missing.db").exists()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
async def test_a_restore_does_not_wait_for_a_running_node(filled: str) -> None:
    async with dump.read(filled, without=MOMENTARY) as found:
        copied = [batch async for batch in found.batches()]

    async def batches() -> AsyncIterator[Batch]:
        for batch in copied:
            yield batch

    with psycopg.connect(filled) as holder:
        holder.execute("SELECT * FROM users")
        limits = LockLimits(table=0.1, tries=1)
        with pytest.raises(Unavailable, match="Nothing was changed"):
            await load(filled, Content(newest_revision(), batches), replace=True, limits=limits)
    assert len((await rows_of(filled))["users"]) == 2


class TestFiles:
    @pytest.fixture
    async def plain(self, migrated_file: Path, tmp_path: Path) -> Path:
        await save(f"sqlite:///{migrated_file}", tmp_path / "plain")
        return tmp_path / "plain"

    @pytest.fixture
    async def encrypted(self, migrated_file: Path, tmp_path: Path) -> Path:
        await save(f"sqlite:///{migrated_file}", tmp_path / "encrypted", "correct horse")
        return tmp_path / "encrypted"

    @pytest.mark.usefixtures("real_argon2")
    async def test_a_passphrase_is_costly_to_guess(
        self, migrated_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        costs: list[tuple[int, int, int]] = []

        def noted(*arguments: Any, **options: Any) -> bytes:
            costs.append((options["memory_cost"], options["time_cost"], options["parallelism"]))
            return hash_secret_raw(*arguments, **options)

        monkeypatch.setattr(backup_file, "hash_secret_raw", noted)
        await save(f"sqlite:///{migrated_file}", tmp_path / "encrypted", "correct horse")
        backup_file.read(tmp_path / "encrypted", "correct horse")
        assert costs == [(64 * 1024, 3, 4)] * 2

    def test_a_wrong_passphrase(self, encrypted: Path) -> None:
        for passphrase in ("wrong", "", None):
            with pytest.raises(backup_file.WrongPassphrase):
                backup_file.read(encrypted, passphrase)

    @pytest.mark.parametrize("kind", ["plain", "encrypted"])
    def test_any_changed_or_missing_byte_is_noticed(self, request: pytest.FixtureRequest, kind: str) -> None:
        file: Path = request.getfixturevalue(kind)
        whole = file.read_bytes()
        start = whole.index(b"\n") + 1
        damaged = [whole[:size] for size in (0, 5, start, start + 1, len(whole) - 1, len(whole) - 9)]
        damaged += [_flipped(whole, at) for at in (0, start + 20, len(whole) // 2, len(whole) - 20)]
        damaged.append(whole + whole)
        for data in damaged:
            file.write_bytes(data)
            with pytest.raises((backup_file.Damaged, backup_file.WrongPassphrase)):
                backup_file.read(file, "correct horse")
        file.write_bytes(whole)
        backup_file.read(file, "correct horse")

    @pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 3 * 65536])
    def test_chunks_of_every_size(self, tmp_path: Path, size: int) -> None:
        data = os.urandom(size)
        with backup_file.written(tmp_path / "file", "correct horse") as stream:
            stream.write(data)
        with backup_file.opened(tmp_path / "file", "correct horse") as opened:
            assert opened.read() == data

    def test_chunks_cannot_be_left_out_or_exchanged(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        with backup_file.written(file, "correct horse") as stream:
            stream.write(os.urandom(4 * 65536))
        whole = file.read_bytes()
        start, chunk = whole.index(b"\n") + 1, 65536 + 16
        parts = [whole[at : at + chunk] for at in range(start, len(whole), chunk)]
        for wrong in (parts[:-1], [parts[0], *parts[2:]], [parts[0], parts[2], parts[1], *parts[3:]]):
            file.write_bytes(whole[:start] + b"".join(wrong))
            with backup_file.opened(file, "correct horse") as opened, pytest.raises(backup_file.Damaged):
                opened.read()

    @pytest.mark.parametrize(
        "change",
        [
            lambda lines: lines[:-1],
            lambda lines: [*lines, lines[-1]],
            lambda lines: [lines[0], *lines[2:]],
            lambda lines: [{**lines[0], "more": 1}, *lines[1:]],
            lambda lines: ["text", *lines[1:]],
            lambda lines: [],
        ],
    )
    def test_content_that_makes_no_sense(self, plain: Path, change: Callable[[list[Any]], list[Any]]) -> None:
        first, _, data = plain.read_bytes().partition(b"\n")
        lines = change([json.loads(line) for line in gzip.decompress(data).splitlines()])
        changed = gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        plain.write_bytes(first + b"\n" + changed)
        with pytest.raises(backup_file.Damaged, match="nothing was changed"):
            backup_file.read(plain, None)

    def test_other_files_are_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        for data, words in (
            (b"SQLite format 3", "is not a Portico backup"),
            (b"PORTICO-BACKUP 2 x\n", "newer version"),
        ):
            file.write_bytes(data)
            with pytest.raises(backup_file.Damaged, match=words):
                backup_file.is_encrypted(file)

    async def test_a_failed_backup_keeps_the_older_one(self, plain: Path, migrated_file: Path) -> None:
        whole = plain.read_bytes()

        async def broken() -> AsyncIterator[Batch]:
            yield Batch("users", ("id",), [])
            raise Unavailable("The database does not answer.")

        with pytest.raises(Unavailable):
            await backup_file.write(plain, FACTS, Content(newest_revision(), broken), None)
        assert plain.read_bytes() == whole
        assert [each.name for each in plain.parent.iterdir()] == [plain.name]

    async def test_a_full_disk_is_named_and_keeps_the_older_one(
        self, plain: Path, migrated_file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        whole = plain.read_bytes()
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(backup_file.Unwritable, match=r"can't be written: No space left on device\."):
            await save(f"sqlite:///{migrated_file}", plain)
        assert plain.read_bytes() == whole
        assert [each.name for each in plain.parent.iterdir()] == [plain.name]


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


GOOD = {"table": "cluster", "columns": ["name", "value"], "rows": [["n", "v"]]}


def forged(file: Path, *lines: Any) -> Path:
    """A backup with these lines and the right checksum; text is written as it is."""
    counts: Counts = {}
    for line in lines:
        if isinstance(line, dict) and isinstance(line.get("table"), str):
            counts[line["table"]] = counts.get(line["table"], 0) + len(line["rows"])
    data = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines).encode()
    end = json.dumps({"counts": counts, "sha256": hashlib.sha256(data).hexdigest()}).encode() + b"\n"
    with backup_file.written(file, None) as stream:
        stream.write(data + end)
    return file


@pytest.mark.parametrize(
    "lines",
    [
        ["[" * 100_000],
        ["7"],
        ['"sha256"'],
        [{**asdict(FACTS), "revision": 3}],
        [{**asdict(FACTS), "files": ["x"]}],
        [{**asdict(FACTS), "more": "x"}],
        [asdict(FACTS), {**GOOD, "table": ["users"]}],
    ],
)
def test_content_that_is_not_a_backups_is_damaged(tmp_path: Path, lines: list[Any]) -> None:
    file = forged(tmp_path / "b", *lines)
    with pytest.raises(backup_file.Damaged, match=r"is damaged: .*; nothing was changed\.$"):
        backup_file.read(file, None)


async def test_rows_that_do_not_fit_are_refused(tmp_path: Path, url: str) -> None:
    changes: list[dict[str, Any]] = [
        {"columns": ["name", "none"]},
        {"rows": [["n", "v"], ["n", "v"]]},
        {"rows": [["n", None]]},
        {"rows": [["n", ["list"]]]},
        {"rows": [["n", "\ud800"]]},
    ]
    if url.startswith("sqlite"):  # what is noticed before the database is asked
        changes += [
            {"table": "none"},
            {"columns": ["name", ["value"]]},
            {"columns": 7},
            {"rows": [["short"]]},
            {"rows": [["n", {"base64": "?"}]]},
            {"rows": [["n", {"none": ""}]]},
            {"rows": [7]},
        ]
    before = await rows_of(url)
    for number, change in enumerate(changes):
        read = backup_file.read(forged(tmp_path / str(number), asdict(FACTS), {**GOOD, **change}), None)
        with pytest.raises((backup_file.Damaged, Misfit), match=r"nothing was changed\.$"):
            await load(url, read.content(), replace=True)
    assert await rows_of(url) == before
