"""`portico migrate` and `portico migrate-database`: change the schema of the database, or move to another one."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from portico.cli.administration.home import SET_UP_MARK, prepare
from portico.cli.administration.home_setup import undone_on_failure
from portico.cli.console.exits import UsageMistake
from portico.cli.console.parser import Command, argument, flag

if TYPE_CHECKING:
    from portico.store.dump import Counts, Row


def migrate(options: SimpleNamespace) -> None:
    from portico.store import schema

    with undone_on_failure(options.home):
        settings = prepare(options.home)
        done = schema.migrate(settings.database_url, set_up_mark=settings.home / SET_UP_MARK)
    newest = schema.newest_revision()
    if done.before is None:
        print(f"The database was empty; created the tables of schema {done.after}.")
    elif done.before != done.after:
        print(f"Migrated the database from schema {done.before} to {done.after}.")
    elif done.after == newest:
        print(f"Nothing to do: the database already has schema {newest}.")
    else:
        print(
            f"Nothing to do: the database has schema {done.after} of a newer version of Portico, "
            f"and this version ({newest}) can use it."
        )


def migrate_database(options: SimpleNamespace) -> None:
    from portico.cli.administration.backup import show_counts
    from portico.cli.administration.restore import keep_client

    source, target = options.source, options.target
    if _same(source, target):
        raise UsageMistake("FROM and TO are the same database; give two different ones.")
    moved: list[str] = []
    values: dict[str, str] = {}
    counts = asyncio.run(_copy(source, target, options.home, moved, values, lost_key=options.lost_key))
    show_counts(counts)
    print("Copied everything. Both databases have the same number of rows.")
    if moved:
        print(f"These paths are now absolute and must be the same on every node: {', '.join(moved)}.")
    print("Next, set database.url to the new database on every node, and give all nodes the same secret key.")
    if target.startswith("sqlite") and not source.startswith("sqlite"):
        if _is_inside(target, options.home):
            keep_client(options.home, values, needed=True)
        else:
            print("Also set security.client-id and security.client-secret, because only a shared database stores them.")


async def _copy(
    source: str, target: str, home: Path, moved: list[str], values: dict[str, str], *, lost_key: bool
) -> "Counts":
    """`moved` gets the connections whose paths became absolute, `values` what the nodes on the source agree on."""
    from portico.cli.administration.restore import note_key, with_paths, without_key
    from portico.store import dump

    base: Path | None = home
    if not _is_inside(source, home):  # its relative paths start at its own folder, if it is a file
        base = _file(source).parent if source.startswith("sqlite") else None
    stays = _is_inside(target, home)
    key = None if lost_key else await _key_to_note(source, base or home, shared=not stays)

    def change(table: str, row: "Row") -> "Row | None":
        kept = without_key(table, row) if lost_key else row
        new = kept and with_paths(table, kept, str(base or home), relative=stays)
        if new != kept and not stays and row["name"] not in moved:
            moved.append(row["name"])
        return new

    async with dump.read(source, only=frozenset({"cluster"})) as found:
        values.update(await dump.values_in(found))
    async with dump.read(source) as found:
        if not stays and base:
            found = dump.with_values(found, _client_of(base))
        counts = await dump.load(target, found, change=change)
    if key:
        await note_key(target, key)
    return counts


def _client_of(home: Path) -> dict[str, str]:
    from portico.settings.settings import SettingsError, load

    try:
        return load(home).client()
    except SettingsError:
        return {}


async def _key_to_note(source: str, home: Path, *, shared: bool) -> str | None:
    """The fingerprint of the key that belongs to the data, unless the source has it or there is nothing that needs it."""
    from portico.accounts.cluster import key_differs, key_missing
    from portico.accounts.vault import BadSecretKey, SecretKey, Vault
    from portico.cli.administration.restore import LOST_KEY
    from portico.store import dump
    from portico.store.cluster import KEY

    sealed: dict[str, bytes] = {}
    async with dump.read(source, only=frozenset({"cluster", "connections"})) as found:
        async for batch in found.batches():
            for values in batch.rows:
                row = dict(zip(batch.columns, values, strict=True))
                if batch.table == "cluster" and row["name"] == KEY:
                    return None  # it is copied
                if batch.table == "connections" and row["secrets"] is not None:
                    sealed[row["name"]] = bytes(row["secrets"])
    file = home / "secret.key"
    if not SecretKey.exists(file):
        if sealed:
            raise key_missing("the database to copy", file, LOST_KEY)
        return None
    key = SecretKey.load(file)

    def opens(name: str) -> bool:
        try:
            Vault(key).open(sealed[name], name)
        except BadSecretKey:
            return False
        return True

    if sealed and not any(map(opens, sealed)):
        raise key_differs("the database to copy", LOST_KEY)
    return key.fingerprint() if shared or sealed else None


def _is_inside(url: str, home: Path) -> bool:
    return url.startswith("sqlite") and _file(url).is_relative_to(home)


def _same(first: str, second: str) -> bool:
    if first.startswith("sqlite") and second.startswith("sqlite"):
        return _file(first).resolve() == _file(second).resolve()
    return first == second


def _file(url: str) -> Path:
    return Path(url.partition(":///")[2].partition("?")[0]).absolute()


def _url(text: str) -> str:
    from portico.settings.parsers import database

    try:
        if text:
            return database(text)
    except ValueError:
        pass
    raise UsageMistake(f"{text.partition('://')[0]!r} is not a database URL; use sqlite:///FILE or postgresql://…")


_URLS = (
    argument(
        "source", "FROM", convert=_url, help="The database to copy, written as in database.url. It is not changed."
    ),
    argument("target", "TO", convert=_url, help="The new database, which must be empty."),
    flag("--lost-key", help="Copy even if the secret key of the data is lost."),
)


COMMANDS = {
    "migrate": Command(
        migrate,
        "Migrate the database to the schema of this version of Portico.\n\nNodes of the previous "
        "version can keep running. Starting the gateway also migrates the database, unless "
        "database.migrate is false or --no-migrate is given.",
        (),
        "Example:\n  portico migrate && systemctl restart portico",
    ),
    "migrate-database": Command(
        migrate_database,
        "Copy everything, including sessions, to another database, such as from SQLite to "
        "PostgreSQL or back.\n\nStop all nodes first: changes made during the copy are lost. The "
        "copy is one transaction, and its rows are counted: either everything is copied or nothing.",
        _URLS,
        "Example:\n  portico migrate-database sqlite:////srv/portico/portico.db postgresql://portico@db.example.com/portico",
    ),
}
