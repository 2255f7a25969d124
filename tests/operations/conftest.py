import pathlib
import shutil

import pytest

from portico.accounts.connections import Connections, HomePaths
from portico.accounts.passwords import Passwords
from portico.accounts.users import Users
from portico.accounts.vault import SecretKey, Vault
from portico.model.rights import Right
from portico.providers.contract.registry import PATH_OPTIONS
from portico.store.database import Database
from portico.store.schema import in_thread

from .test_second_front_end import PASSWORD, settings_of


@pytest.fixture(scope="session")
def first_installation(tmp_path_factory: pytest.TempPathFactory, migrated_file: pathlib.Path) -> pathlib.Path:
    """A home with a connection and users, of which every test gets a copy."""
    home = tmp_path_factory.mktemp("first-installation")
    (home / "files" / "web").mkdir(parents=True)
    shutil.copy(migrated_file, home / "portico.db")

    async def populate() -> None:
        chosen = settings_of(home)
        database, passwords = Database(chosen.database_url), Passwords()
        vault = Vault(SecretKey.load(chosen.secret_key_file, {}))
        paths = HomePaths(str(home), PATH_OPTIONS, keep_relative=True)
        await Connections(database, vault, paths).add("local", "local", {"folder": str(home / "files")}, {})
        users = Users(database, passwords)
        await users.add("web", PASSWORD)
        await users.add("reader", PASSWORD, root="/web", rights=[Right.LIST])
        passwords.close()
        await database.close()

    in_thread(populate())
    return home
