"""`portico restore`: make the accounts as a backup has them."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from portico.cli.administration import home as homes
from portico.cli.administration.accounts import database_as_it_is, run_audited
from portico.cli.administration.backup import KEY_FILE, show_counts
from portico.cli.administration.cluster import FORCE, check_stopped
from portico.cli.administration.home_setup import FIRST_USER, forget_password_file, undone_on_failure
from portico.cli.console.exits import Missing, UsageMistake
from portico.cli.console.parser import Command, argument, flag
from portico.cli.console.terminal import ask_hidden, at_terminal, confirm, read_standard_input, warn

if TYPE_CHECKING:
    from portico.settings.settings import Settings
    from portico.store.backup_file import Backup
    from portico.store.dump import Row

LOST_KEY = "If the key is lost, add --lost-key, then add the connections with credentials again."


def restore(options: SimpleNamespace) -> None:
    from portico.store.dump import values_in

    backup = _read(options)
    values = asyncio.run(values_in(backup.content()))
    with undone_on_failure(options.home):
        settings = _settings(options.home, backup, client_of(values))
        with _key(settings, backup, lost=options.lost_key):
            if options.replace:
                _confirm_replacement(settings, backup, yes=options.yes, force=options.force)
            _restore(settings, backup, replace=options.replace, lost_key=options.lost_key)
        keep_client(settings.home, values, needed=settings.database_in_home)
        (settings.home / homes.SET_UP_MARK).touch(mode=0o600)
    if backup.facts.key and not options.lost_key and not settings.database_in_home:
        asyncio.run(note_key(settings.database_url, backup.facts.key))
    _forget_old_password(settings)
    show_counts(backup.counts)
    signed_in = "Sessions continue." if "families" in backup.counts else "All users must sign in again."
    print(f"Restored the backup of {backup.facts.created}. {signed_in}")


def _confirm_replacement(settings: "Settings", backup: "Backup", *, yes: bool, force: bool) -> None:
    async def check() -> str:
        async with database_as_it_is(settings.database_url) as database:
            await check_stopped(database, force=force)
            return database.name

    name = asyncio.run(check())
    confirm(f"All users and connections in {name} will be replaced with those from {backup.file}.", yes=yes)


def _read(options: SimpleNamespace) -> "Backup":
    """The backup, read to its end and verified, before anything is changed."""
    from portico.store.backup_file import is_encrypted, read

    file = Path(options.file).absolute()
    if not file.is_file():
        raise Missing(f"The file {file} doesn't exist.", folder=False)
    passphrase = None
    if is_encrypted(file):
        if options.passphrase_stdin:
            passphrase = read_standard_input()
        elif at_terminal():
            passphrase = ask_hidden("Passphrase: ")
        else:
            raise UsageMistake(f"The backup {file} is encrypted; send its passphrase with --passphrase-stdin.")
    return read(file, passphrase)


def _settings(home: Path, backup: "Backup", client: dict[str, str]) -> "Settings":
    """The settings of the home, with the client of the backup; a home without settings gets those of the backup."""
    from portico.runtime.private_files import write_private
    from portico.settings.settings import PROPERTIES_FILE, commented_file
    from portico.settings.sources import with_values

    text, file = backup.facts.files.get(PROPERTIES_FILE), home / PROPERTIES_FILE
    if text or client:
        homes.make(home)
        if not file.exists():
            write_private(file, with_values(text or commented_file(client), client), replace=False)
    return homes.prepare(home, client)


def client_of(values: Mapping[str, str]) -> dict[str, str]:
    """The client id and secret in the table `cluster`, by key; empty if it does not have both."""
    from portico.settings.settings import CLIENT

    found = {key: values[key] for key in CLIENT if values.get(key)}
    return found if len(found) == len(CLIENT) else {}


def keep_client(home: Path, values: Mapping[str, str], *, needed: bool) -> None:
    """Let the settings of this home name the client that programs have, and the public URL if they name none.

    They are `needed` unless a shared database has them, which then only must not be contradicted.
    """
    from portico.runtime.private_files import write_private
    from portico.settings.settings import KEYS, PROPERTIES_FILE, PUBLIC_URL, commented_file, load
    from portico.settings.sources import from_file, variable, with_values

    client, file = client_of(values), home / PROPERTIES_FILE
    if not client:
        return
    written = {key: given.text for key, given in from_file(file, KEYS)[0].items()}
    new = {key: value for key, value in client.items() if written.get(key, "" if needed else value) != value}
    if needed and values.get(PUBLIC_URL) and not written.get(PUBLIC_URL):
        new[PUBLIC_URL] = values[PUBLIC_URL]
    if new:
        text = file.read_text("utf-8") if file.exists() else commented_file(new)
        write_private(file, with_values(text, new))
        print(f"Set {' and '.join(new)} in {file}, so that programs can keep using their credentials.")
    for key, value in load(home).client().items():
        if value not in ("", client[key]):
            warn(
                f"programs can't sign in, because {variable(key)} differs from the {key} they use; remove the variable."
            )


@contextmanager
def _key(settings: "Settings", backup: "Backup", *, lost: bool) -> Iterator[None]:
    """Check that this node has the key of the backup. If it has none, it gets the one in the backup."""
    from portico.accounts.cluster import key_differs, key_missing
    from portico.accounts.vault import SecretKey
    from portico.runtime.private_files import write_private

    file, wanted = settings.secret_key_file, backup.facts.key
    if wanted is None or lost:
        yield
        return
    if SecretKey.exists(file):
        if SecretKey.load(file).fingerprint() != wanted:
            raise key_differs("the gateway that the backup is of", LOST_KEY)
        yield
        return
    if KEY_FILE not in backup.facts.files:
        raise key_missing("the backup", file, LOST_KEY)
    write_private(file, backup.facts.files[KEY_FILE], replace=False)
    try:
        yield
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _restore(settings: "Settings", backup: "Backup", *, replace: bool, lost_key: bool) -> None:
    from portico.store.backup_file import Damaged
    from portico.store.dump import Misfit, NotEmpty, load, without_new_file

    def change(table: str, row: "Row") -> "Row | None":
        kept = without_key(table, row) if lost_key else row
        return kept and with_paths(table, kept, str(settings.home), relative=settings.database_in_home)

    try:
        with without_new_file(settings.database_url):  # in which the failure would be recorded
            run_audited(
                settings,
                "restore",
                str(backup.file),
                lambda: load(settings.database_url, backup.content(), replace=replace, change=change),
            )
    except NotEmpty as error:
        raise error.with_sentence("To replace all of it, add --replace.") from None
    except Misfit as error:
        raise Damaged(backup.file, f"is damaged: {error.why}") from error


def _forget_old_password(settings: "Settings") -> None:
    """Remove the file of the first password, if the restored user has another one."""
    from portico.accounts.passwords import Passwords
    from portico.store.users import UserRecords

    file = settings.home / homes.PASSWORD_FILE
    if not file.exists():
        return

    async def is_valid() -> bool:
        async with database_as_it_is(settings.database_url) as database:
            _, hashed = await UserRecords(database).find(FIRST_USER)
        with closing(Passwords()) as passwords:
            return await passwords.verify(hashed, file.read_text().strip())

    if not asyncio.run(is_valid()):
        forget_password_file(settings.home, FIRST_USER)


def with_paths(table: str, row: "Row", home: str, *, relative: bool) -> "Row":
    """With paths inside the home `relative` to it, for a database that moves with it; absolute for any other."""
    from portico.accounts.connections import HomePaths
    from portico.providers.contract.registry import PATH_OPTIONS

    if table != "connections":
        return row
    paths = HomePaths(home, PATH_OPTIONS, keep_relative=relative)
    return {**row, "options": json.dumps(paths.stored(paths.resolved(json.loads(row["options"]))))}


def without_key(table: str, row: "Row") -> "Row | None":
    """Without what another key has signed, or what names it."""
    from portico.store.cluster import KEY
    from portico.store.journal_chain import CHAINED

    if table == "journal_proofs" or (table == "cluster" and row["name"] == KEY):
        return None
    return {name: None if table == "journal" and name in CHAINED else value for name, value in row.items()}


async def note_key(target: str, fingerprint: str) -> None:
    """Note in a database whose credentials have just been stored which key they belong to."""
    from portico.accounts.cluster import Cluster
    from portico.store.cluster import KEY

    async with database_as_it_is(target) as database:
        await Cluster(database).agree({KEY: fingerprint})


COMMANDS = {
    "restore": Command(
        restore,
        "Restore a backup into an empty database or, with --replace, into one with data. Stop all "
        "nodes first.\n\nThe whole file is verified first. Then everything is restored in one "
        "transaction, or nothing. Backups of older versions are migrated.",
        (
            argument("file", "FILE", help="The backup."),
            flag("--replace", help="Replace existing users and connections; asks for confirmation."),
            flag("--yes", help="Don't ask for confirmation."),
            flag("--lost-key", help="Restore even if the backup's secret key is lost."),
            flag("--passphrase-stdin", help="Read the passphrase from standard input."),
            FORCE,
        ),
        "Examples:\n"
        "  portico --home /srv/portico restore /backup/portico.backup\n"
        "  portico restore /backup/portico.backup --replace --yes",
    )
}
