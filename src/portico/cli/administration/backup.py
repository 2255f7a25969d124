"""`portico backup`: save the accounts to a file."""

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from portico.cli.administration import home as homes
from portico.cli.administration.accounts import database_as_it_is, run_audited
from portico.cli.console.exits import Missing, UsageMistake
from portico.cli.console.output import show_list
from portico.cli.console.parser import Command, Exclusive, argument, flag
from portico.cli.console.terminal import ask_new_password, at_terminal, read_standard_input, warn

if TYPE_CHECKING:
    from portico.accounts.vault import SecretKey
    from portico.settings.settings import Settings
    from portico.store.dump import Counts

KEY_FILE = "secret.key"
_SHORTEST_PASSPHRASE = 8


def backup(options: SimpleNamespace) -> None:
    settings = homes.existing(options.home)
    file = _new_file(options.file)
    passphrase = _new_passphrase(options)
    if options.with_key and passphrase is None:
        warn(
            "the backup contains the secret key and is not encrypted. Anyone who can read "
            "it can get the credentials of your storage services."
        )
    counts = run_audited(
        settings,
        "backup",
        str(file),
        lambda: _backup(settings, file, passphrase, with_key=options.with_key, with_sessions=options.with_sessions),
    )
    show_counts(counts)
    how = "an encrypted backup" if passphrase else "a backup"
    print(f"Wrote {how} to {file}{'' if options.with_key else ', without the secret key'}.")


async def _backup(
    settings: "Settings", file: Path, passphrase: str | None, *, with_key: bool, with_sessions: bool
) -> "Counts":
    from portico import __version__
    from portico.model import timestamps
    from portico.runtime import clock
    from portico.store import backup_file as backup
    from portico.store import dump

    key = await _fingerprint(settings, with_key=with_key)
    files = {}
    if with_key:
        files = {KEY_FILE: f"{_own_key(settings).text()}\n"}
        files[settings.properties_file.name] = settings.properties_file.read_text("utf-8")
    without = dump.MOMENTARY - (dump.SESSIONS if with_sessions else frozenset())
    async with dump.read(settings.database_url, without=without) as found:
        if settings.database_in_home:  # a shared database has the client of all nodes
            found = dump.with_values(found, settings.client())
        created = timestamps.from_epoch(clock.now())
        facts = backup.Facts(__version__, found.revision, created, key, files)
        counts = await backup.write(file, facts, found, passphrase)
    await _note(settings)
    return counts


async def _note(settings: "Settings") -> None:
    """Note in the database when the backup was made, for the metrics of running nodes."""
    from portico.accounts.cluster import Cluster
    from portico.model.errors import Unavailable
    from portico.runtime import clock

    async with database_as_it_is(settings.database_url) as database:
        try:
            await Cluster(database).note_backup(clock.now() // 1000)
        except Unavailable:  # an older schema, a replica, a role that may only read
            warn("the database can't be written, so the metrics don't show the time of this backup.")


async def _fingerprint(settings: "Settings", *, with_key: bool) -> str | None:
    from portico.accounts.cluster import Cluster, key_differs
    from portico.accounts.vault import SecretKey
    from portico.model.errors import Unavailable
    from portico.store.cluster import KEY

    async with database_as_it_is(settings.database_url) as database:
        try:
            agreed = (await Cluster(database).identity()).get(KEY)
        except Unavailable:
            agreed = None  # of an older schema; if it does not answer, reading it says so
    if not SecretKey.exists(settings.secret_key_file) and not with_key:
        return agreed
    mine = _own_key(settings).fingerprint()
    if agreed is not None and agreed != mine and with_key:
        raise key_differs(f"the gateway behind the database {database.name}", "Or leave out --with-key.")
    return agreed or mine


def _own_key(settings: "Settings") -> "SecretKey":
    from portico.accounts.vault import BadSecretKey, SecretKey

    if not SecretKey.exists(settings.secret_key_file):
        raise BadSecretKey(
            f"The secret key {settings.secret_key_file} doesn't exist yet; leave out --with-key, "
            "or start the gateway first."
        )
    return SecretKey.load(settings.secret_key_file)


def show_counts(counts: "Counts") -> None:
    rows = [{"table": name, "rows": count} for name, count in sorted(counts.items())]
    show_list(rows, as_json=False, empty="")


def _new_file(text: str) -> Path:
    if text == "-":
        raise UsageMistake("A backup can't be written to standard output; give the name of a file.")
    file = Path(text).absolute()
    if file.is_dir():
        raise UsageMistake(f"{file} is a folder; give the name of a file in it.")
    if not file.parent.is_dir():
        raise Missing(f"The folder {file.parent} doesn't exist; create it first.", folder=True)
    return file


def _new_passphrase(options: SimpleNamespace) -> str | None:
    if options.passphrase_stdin:
        return _checked(read_standard_input())
    if not options.encrypt:
        return None
    if not at_terminal():
        raise UsageMistake(
            "The passphrase can't be prompted for, because standard input is not a terminal; send it "
            "with --passphrase-stdin."
        )
    return ask_new_password(_checked, "passphrase")


def _checked(passphrase: str) -> str:
    if len(passphrase) < _SHORTEST_PASSPHRASE:
        raise UsageMistake(f"The passphrase is too short; it needs at least {_SHORTEST_PASSPHRASE} characters.")
    return passphrase


_OPTIONS = (
    argument("file", "FILE", help="The file to write. An existing file is replaced once the new one is complete."),
    flag("--with-key", help="Include the secret key and application.properties."),
    flag("--with-sessions", help="Include sessions, so users don't have to sign in again."),
    flag("--encrypt", help="Encrypt the file; prompts for a passphrase."),
    flag("--passphrase-stdin", help="Encrypt the file with the passphrase on standard input."),
    Exclusive("--encrypt", "--passphrase-stdin"),
)


COMMANDS = {
    "backup": Command(
        backup,
        "Save users, connections, the settings all nodes share and the database's audit log to a "
        "file. The gateway can keep running; the file shows its state at one moment.\n\nUsers' "
        "files are never included. Sessions are included only with --with-sessions; otherwise "
        "users sign in again after a restore. Without --with-key, keep the secret key elsewhere: "
        "connections' credentials are encrypted with it.",
        _OPTIONS,
        "Examples:\n"
        "  portico backup /backup/portico.backup\n"
        "  portico backup /backup/portico.backup --with-key --passphrase-stdin < /etc/portico/passphrase",
    )
}
