"""Setting up a new home: a connection to its own folder, and one Web User whose password is shown once.

Each step checks whether it is done already, and the mark comes last, so a start that was killed halfway is
completed by the next one. A setup that fails removes what it has made.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from portico.cli.administration.accounts import Accounts, audited, with_settings
from portico.cli.administration.home import LOCK_FILE, PASSWORD_FILE, SET_UP_MARK, HomeUnusable, make, prepare
from portico.model.errors import AlreadyExists, PorticoError

T = TypeVar("T")
FIRST_CONNECTION = "local"
FIRST_USER = "web"
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # without letters and digits that look alike
_DATABASE = "portico.db"
_FILES = ("application.properties", "audit.log", _DATABASE, "secret.key", PASSWORD_FILE, LOCK_FILE)
_FOLDERS = ("tls", "metrics")
_ROOTS = ("files/web", "files")
"""Removed only if they are empty."""


def generate_password() -> str:
    """Four groups of five, 99 bits: easy to read out, to type and to paste."""
    return "-".join("".join(secrets.choice(_ALPHABET) for _ in range(5)) for _ in range(4))


def with_new_accounts(home: Path, action: Callable[[Accounts], Awaitable[T]]) -> T:
    """Run `action` on the accounts of this home; a missing home is made, with its first connection."""

    async def with_connection(accounts: Accounts) -> T:
        await add_local_connection(accounts)
        try:
            result = await action(accounts)
            if not accounts.settings.database_in_home:
                from portico.accounts.cluster import Cluster

                # Makes this home's key that of the shared database: a command that fails removes the new key again.
                await Cluster(accounts.database).load_key(accounts.settings.secret_key_file)
        except BaseException:
            await _keep_if_claimed(accounts)
            raise
        return result

    with undone_on_failure(home):
        return with_settings(prepare(home), with_connection, make_key=True)


async def _keep_if_claimed(accounts: Accounts) -> None:
    """Mark the home as set up if a shared database names its key already: a failure must not remove that key."""
    if accounts.settings.database_in_home:
        return
    from portico.accounts.cluster import Cluster, ClusterMismatch
    from portico.store.cluster import KEY

    try:
        cluster = Cluster(accounts.database)
        await cluster.own_key(accounts.settings.secret_key_file)
        claimed = KEY in await cluster.identity()
    except ClusterMismatch:
        claimed = False
    except PorticoError:
        claimed = True  # nobody knows
    if claimed:
        (accounts.settings.home / SET_UP_MARK).touch(mode=0o600)


async def add_local_connection(accounts: Accounts) -> None:
    if (
        accounts.settings.database
        or (accounts.settings.home / SET_UP_MARK).exists()
        or await accounts.connections.list(with_secrets=False)
    ):
        return  # nodes that share a database have no folder in common
    folder = accounts.settings.files_folder
    _make_folder(folder)
    with suppress(AlreadyExists):  # another node that shares the database was faster
        async with audited(accounts.journal, "connection.add", FIRST_CONNECTION):
            await accounts.connections.add(FIRST_CONNECTION, "local", {"folder": str(folder)}, {})


def _make_folder(folder: Path) -> None:
    """Made only before there is a connection to it: a folder that vanishes later is not replaced by an empty one."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        raise HomeUnusable(f"{folder} is a file, but the gateway needs a folder there; move the file away.") from None
    except OSError as error:
        raise HomeUnusable(f"The folder {folder} can't be created ({error.strerror}).") from None


async def add_first_user(accounts: Accounts) -> str | None:
    """Add `web` to a home that has no user yet; returns the password, or None if there was nothing to do.

    The password is written to its file before the user exists, so a start that fails before showing it does not lose it.
    """
    settings = accounts.settings
    if (settings.home / SET_UP_MARK).exists():
        return None
    password = None
    connections = [] if settings.database else await accounts.connections.list(with_secrets=False)
    if any(each.name == FIRST_CONNECTION for each in connections) and not await accounts.users.list():
        password = generate_password()
        _make_folder(settings.files_folder / FIRST_USER)
        from portico.runtime.private_files import write_private

        write_private(settings.home / PASSWORD_FILE, password + "\n")
        try:
            async with audited(accounts.journal, "user.add", FIRST_USER):
                await accounts.users.add(FIRST_USER, password, connection=FIRST_CONNECTION)
        except AlreadyExists:
            password = None
            (settings.home / PASSWORD_FILE).unlink(missing_ok=True)
    (settings.home / SET_UP_MARK).touch(mode=0o600)
    return password


def forget_password_file(home: Path, user: str) -> None:
    """Remove the file of the first password, which is no longer valid."""
    if user.casefold() == FIRST_USER:
        (home / PASSWORD_FILE).unlink(missing_ok=True)


@contextmanager
def undone_on_failure(home: Path) -> Iterator[None]:
    """If the setup of a new home fails inside, remove what it has made, and nothing else."""
    if (home / SET_UP_MARK).exists():
        yield
        return
    folders, lock = _made_and_locked(home)
    try:
        before = set(os.listdir(home))
        try:
            yield
        except BaseException:
            if not (home / SET_UP_MARK).exists():
                _remove_new(home, before)
                _remove_empty(folders)
            raise
    finally:
        os.close(lock)


def _made_and_locked(home: Path) -> tuple[list[Path], int]:
    """The folders that had to be made, and the descriptor that holds the lock: a concurrent first start waits."""
    while True:
        folders = [folder for folder in (home, *home.parents) if not os.path.lexists(folder)]
        try:
            make(home)
        except BaseException:
            _remove_empty(folders)
            raise
        try:
            lock = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # the other start has just failed
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(home)):
                return folders, lock
        os.close(lock)  # the other start has failed, and removed the folder


def _remove_new(home: Path, before: set[str]) -> None:
    for name in set(os.listdir(home)) - before:
        if name.startswith(_DATABASE) and _DATABASE in before:
            continue  # another command may be using it
        if name.startswith(_FILES):  # includes SQLite's side files, and drafts
            with suppress(OSError):
                os.unlink(home / name)
        elif name in _FOLDERS:
            shutil.rmtree(home / name, ignore_errors=True)
    if "files" not in before:
        _remove_empty([home / folder for folder in _ROOTS])


def _remove_empty(folders: list[Path]) -> None:
    """Innermost first."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
