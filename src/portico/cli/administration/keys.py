"""`portico key …`: manage the API keys of Web Users."""

from types import SimpleNamespace
from typing import TYPE_CHECKING

from portico.cli.administration.accounts import Accounts, audited, read_accounts, with_accounts
from portico.cli.administration.users import rights
from portico.cli.console.exits import UsageMistake
from portico.cli.console.output import JSON, Facts, print_json, show_list
from portico.cli.console.parser import Command, Group, argument, option
from portico.model.errors import NotFound
from portico.model.paths import Path
from portico.model.rights import Right, shown
from portico.runtime import clock
from portico.settings import parsers

if TYPE_CHECKING:
    from portico.accounts.api_keys import ApiKeys, KeyScope, NewKey
    from portico.store.api_keys import ApiKey
    from portico.store.users import User


def add(options: SimpleNamespace) -> None:
    scope = _scope(options)

    async def action(accounts: Accounts) -> "NewKey":
        user = await accounts.users.get(options.user)
        async with audited(accounts.journal, "key.add", user.name) as line:
            new = await _keys(accounts).add(user, scope)
            line.key, line.key_name = new.key.id, new.key.name
            return new

    new = with_accounts(options.home, action)
    if options.as_json:
        print_json({**_facts(new.key), "key": new.text})
        return
    print(f"Added the key {new.key.name} ({new.key.id}) of {options.user}.")
    print(f"The key, shown only once: {new.text}")


def list_(options: SimpleNamespace) -> None:
    async def action(accounts: Accounts) -> list[Facts]:
        keys = _keys(accounts)
        named = [await accounts.users.get(options.user)] if options.user else await accounts.users.list()
        return [{"user": user.name, **_facts(key)} for user in named for key in await keys.list(user)]

    empty = "There are no keys yet; add one with 'portico key add USER --name NAME'."
    show_list(read_accounts(options.home, action), as_json=options.as_json, empty=empty)


def end(options: SimpleNamespace) -> None:
    async def action(accounts: Accounts) -> str:
        user = await accounts.users.get(options.user)
        keys = _keys(accounts)
        key = await _find(keys, user, options.id)
        async with audited(accounts.journal, "key.end", user.name) as line:
            line.key, line.key_name = key.id, key.name
            await keys.end(user, key.id)
        return key.name

    print(f"Ended the key {with_accounts(options.home, action)} of {options.user}.")


async def _find(keys: "ApiKeys", user: "User", key_id: str) -> "ApiKey":
    try:
        return await keys.get(user, key_id)
    except NotFound:
        named = [key.id for key in await keys.list(user) if key.name == key_id]
        if named:
            raise NotFound(
                f"'{key_id}' is the key's name, but its id is needed: portico key end {user.name} {named[0]}"
            ) from None
        raise NotFound(
            f"{user.name} has no key '{key_id}'; list the ids with 'portico key list {user.name}'."
        ) from None


def _keys(accounts: Accounts) -> "ApiKeys":
    from portico.accounts.api_keys import ApiKeys

    return ApiKeys(accounts.database)


def _scope(options: SimpleNamespace) -> "KeyScope":
    from portico.accounts.api_keys import KeyScope
    from portico.accounts.limits import parse_network

    try:
        lifetime = None if options.expires is None else parsers.duration(options.expires)
    except ValueError as error:
        raise UsageMistake(f"{error}.") from None
    return KeyScope(
        options.key_name,
        options.rights,
        Path.parse(options.folder or "/"),
        tuple(map(parse_network, (options.addresses or "").replace(",", " ").split())),
        None if lifetime is None else clock.to_datetime(clock.now() + clock.milliseconds(lifetime)),
    )


def _facts(key: "ApiKey") -> Facts:
    return {
        "id": key.id,
        "name": key.name,
        "rights": shown(key.rights),
        "folder": str(key.folder),
        "addresses": [str(each) for each in key.addresses],
        "expiresAt": key.expires_at,
        "lastUsedAt": key.used_at,
        "lastUsedFrom": key.used_from,
    }


_USER_ARGUMENT = argument("user", "USER", help="The key's owner.")
_OPTIONAL_USER = argument("user", "USER", optional=True, help="List only this user's keys.")
_ID_ARGUMENT = argument(
    "id",
    "ID",
    missing="ID is missing; list the ids with 'portico key list USER'",
    help="The key's id, as shown in the list.",
)

_SCOPE_OPTIONS = (
    option("--name", dest="key_name", metavar="NAME", missing="--name is missing", help="What the key is for."),
    option(
        "--rights",
        metavar="LIST",
        convert=rights,
        help=f"Some of {','.join(Right)}. Default: all rights the owner has.",
    ),
    option("--folder", metavar="PATH", help="The folder in the owner's tree that the key sees as /."),
    option("--addresses", metavar="LIST", help="Addresses and ranges the key can be used from, such as 10.0.0.0/8."),
    option("--expires", metavar="TIME", help="How long the key is valid, such as 90d. Default: forever."),
)


COMMANDS = {
    "key": Group(
        "Manage API keys, with which programs act for a Web User.",
        {
            "add": Command(
                add,
                "Add a key and print it. The key is shown only once. It never has more rights than "
                "its owner has at that moment.",
                (_USER_ARGUMENT, *_SCOPE_OPTIONS, JSON),
                "Example:\n  portico key add anna --name backup --rights list,upload --folder /backup --expires 90d",
            ),
            "list": Command(list_, "List keys. The keys themselves are not shown.", (_OPTIONAL_USER, JSON)),
            "end": Command(
                end, "End a key. It stops working everywhere within a second.", (_USER_ARGUMENT, _ID_ARGUMENT)
            ),
        },
        "Example:\n  portico key add anna --name backup --rights list,upload",
    )
}
