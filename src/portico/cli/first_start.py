"""What a new home gets: a connection to its own folder, and one Web User with a password that is shown once.

Each step looks whether it is done already, and the mark comes last: a start that was killed halfway is
completed by the next one.
"""

import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from portico.cli.accounts import Accounts, with_settings
from portico.cli.home import PASSWORD_FILE, SET_UP_MARK, HomeUnusable, prepare
from portico.cli.new_home import all_or_nothing
from portico.errors import AlreadyExists

if TYPE_CHECKING:
    from portico.settings import Settings

T = TypeVar("T")

FIRST_CONNECTION = "local"
FIRST_USER = "web"

_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # no letter that is taken for another, or for a digit


def generate_password() -> str:
    """Four groups of five, 99 bits: easy to read out, to type and to paste."""
    return "-".join("".join(secrets.choice(_ALPHABET) for _ in range(5)) for _ in range(4))


def with_new_accounts(home: Path, action: Callable[[Accounts], Awaitable[T]]) -> T:
    """Run `action` on the accounts of this home, which is made, with its first connection, if it is not there yet."""

    async def furnished(accounts: Accounts) -> T:
        await add_local_connection(accounts)
        return await action(accounts)

    with all_or_nothing(home):
        return with_settings(prepare(home), furnished)


async def add_local_connection(accounts: Accounts) -> None:
    if _is_set_up(accounts.settings) or await accounts.connections.list():
        return
    folder = accounts.settings.files_folder
    _make_folder(folder)
    try:
        with accounts.noted("connection.add", FIRST_CONNECTION):
            await accounts.connections.add(FIRST_CONNECTION, "local", {"folder": str(folder)}, {})
    except AlreadyExists:
        pass  # another node that shares the database was faster


def _make_folder(folder: Path) -> None:
    """Only here, before there is a connection to it: one that vanished later must not be replaced by an empty one."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        raise HomeUnusable(f"{folder} is a file, but the files are to be kept there; move it away.") from None
    except OSError as error:
        raise HomeUnusable(f"The folder {folder} cannot be made ({error.strerror}).") from None


async def add_first_user(accounts: Accounts) -> str | None:
    """Add `web` to a home that has no user yet; the password, or None if there was nothing to do.

    The password is safe in its file before the user exists: a start that fails before it is shown must not lose it.
    """
    settings = accounts.settings
    if _is_set_up(settings):
        return None
    password = None
    names = {connection.name for connection in await accounts.connections.list()}
    if FIRST_CONNECTION in names and not await accounts.users.list():
        password = generate_password()
        _make_folder(settings.files_folder / FIRST_USER)
        from portico.client.private import write_private  # with it comes the whole client

        write_private(settings.home / PASSWORD_FILE, password + "\n")
        try:
            with accounts.noted("user.add", FIRST_USER):
                await accounts.users.add(FIRST_USER, password, connection=FIRST_CONNECTION)
        except AlreadyExists:
            password = None
            (settings.home / PASSWORD_FILE).unlink(missing_ok=True)
    (settings.home / SET_UP_MARK).touch(mode=0o600)
    return password


def forget_password_file(home: Path, user: str) -> None:
    """The file must not outlive the password that it holds."""
    if user.casefold() == FIRST_USER:
        (home / PASSWORD_FILE).unlink(missing_ok=True)


def _is_set_up(settings: "Settings") -> bool:
    return (settings.home / SET_UP_MARK).exists()
