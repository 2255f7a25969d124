"""The accounts of a home, opened for one command."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from portico.cli import home as homes

if TYPE_CHECKING:
    from portico.accounts.connections import Connections
    from portico.accounts.users import Users
    from portico.settings import Settings


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Accounts:
    settings: "Settings"
    users: "Users"
    connections: "Connections"


def with_accounts(home: Path, action: Callable[[Accounts], Awaitable[T]]) -> T:
    """Run `action` on the accounts of a home that is there already."""
    return with_settings(homes.existing(home), action)


def with_settings(settings: "Settings", action: Callable[[Accounts], Awaitable[T]]) -> T:
    import asyncio

    from portico.store.schema import migrate

    migrate(settings.database_url)
    return asyncio.run(_call(settings, action))


async def _call(settings: "Settings", action: Callable[[Accounts], Awaitable[T]]) -> T:
    from portico.accounts.connections import Connections
    from portico.accounts.passwords import Passwords
    from portico.accounts.users import Users
    from portico.accounts.vault import SecretKey, Vault
    from portico.store.database import Database

    vault = Vault(SecretKey.load(settings.secret_key_file))
    database = Database(settings.database_url)
    passwords = Passwords()
    try:
        return await action(Accounts(settings, Users(database, passwords), Connections(database, vault)))
    finally:
        passwords.close()
        await database.close()
