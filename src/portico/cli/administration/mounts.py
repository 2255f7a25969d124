"""`portico mount …`: manage the mounts of users and groups."""

from types import SimpleNamespace
from typing import TYPE_CHECKING

import msgspec

from portico.cli.administration.accounts import Accounts, audited, read_accounts, with_accounts
from portico.cli.administration.existing_folders import EXISTING_FOLDER, Given, check_new_folders
from portico.cli.console.exits import UsageMistake
from portico.cli.console.output import JSON, Facts, show_list
from portico.cli.console.parser import Command, Group, argument, option
from portico.model.paths import Path
from portico.model.reach import MountRule
from portico.model.rights import DEFAULT_RIGHTS, Right, parse_rights, shown

if TYPE_CHECKING:
    from portico.store.mounts import OwnedMount, Owner

_NONE = "none"


def rights_or_none(text: str) -> frozenset[Right]:
    if text == _NONE:
        return frozenset()
    try:
        found = parse_rights(text)
    except ValueError as error:
        raise UsageMistake(f"{error}.") from None
    if not found:
        raise UsageMistake(f"--rights is empty; give some of {', '.join(Right)}, or {_NONE} to hide the folder.")
    return found


def add(options: SimpleNamespace) -> None:
    from portico.accounts.mounts import owner_of

    async def action(accounts: Accounts) -> None:
        owner, path = owner_of(options.owner), Path.parse(options.path)
        rule = MountRule(path, options.connection, options.folder, options.rights)
        async with audited(accounts.journal, "mount.add", f"{owner} {path}"):
            await _check_folders(accounts, owner, rule, accept=options.existing_folder)
            await accounts.mounts.add(owner, rule)

    with_accounts(options.home, action)
    print(f"Added the mount {Path.parse(options.path)} of {options.owner}.")


def set_(options: SimpleNamespace) -> None:
    from portico.accounts.mounts import owner_of

    given = {"connection": options.connection, "folder": options.folder, "rights": options.rights}
    fields = {name: value for name, value in given.items() if value is not None}
    changes = fields if options.new_path is None else {**fields, "new_path": Path.parse(options.new_path)}
    if not changes:
        raise UsageMistake("There is nothing to change; add --connection, --folder, --rights or --path.")

    async def action(accounts: Accounts) -> None:
        owner, path = owner_of(options.owner), Path.parse(options.path)
        async with audited(accounts.journal, "mount.set", f"{owner} {path}", changes):
            before = next((each.rule for each in await accounts.mounts.list(owner) if each.rule.path == path), None)
            if before:
                after = msgspec.structs.replace(before, **fields)
                await _check_folders(accounts, owner, after, accept=options.existing_folder)
            await accounts.mounts.change(owner, path, **changes)

    with_accounts(options.home, action)
    print(f"Changed the mount {Path.parse(options.path)} of {options.owner}.")


def list_(options: SimpleNamespace) -> None:
    async def action(accounts: Accounts) -> "list[OwnedMount]":
        from portico.accounts.mounts import owner_of

        return await accounts.mounts.list(owner_of(options.owner) if options.owner else None)

    rows = [_facts(each) for each in read_accounts(options.home, action)]
    if not options.as_json:
        rows = [{**row, "rights": row["rights"] or _NONE} for row in rows]
    empty = "There are no mounts; add one with 'portico mount add USER PATH' or 'portico mount add @GROUP PATH'."
    show_list(rows, as_json=options.as_json, empty=empty)


def remove(options: SimpleNamespace) -> None:
    from portico.accounts.mounts import owner_of

    async def action(accounts: Accounts) -> None:
        owner, path = owner_of(options.owner), Path.parse(options.path)
        async with audited(accounts.journal, "mount.remove", f"{owner} {path}"):
            await accounts.mounts.remove(owner, path)

    with_accounts(options.home, action)
    print(f"Removed the mount {Path.parse(options.path)} of {options.owner}. Its files are still there.")


async def _check_folders(accounts: Accounts, owner: "Owner", rule: MountRule, *, accept: bool) -> None:
    if not rule.is_personal or accept:
        return
    given: list[Given]
    if owner.is_group:
        group = await accounts.groups.get(owner.name)
        given = [(member, rule, group.name) for member in group.members]
    else:
        given = [((await accounts.users.get(owner.name)).name, rule, None)]
    await check_new_folders(accounts, given, accept=accept)


def _facts(mount: "OwnedMount") -> Facts:
    rule = mount.rule
    return {
        "owner": mount.owner,
        "path": str(rule.path),
        "connection": rule.connection,
        "folder": rule.folder,
        "rights": shown(rule.rights),
    }


_OWNER = argument("owner", "USER|@GROUP", help="The user, or the group after an @.")
_OPTIONAL_OWNER = argument("owner", "USER|@GROUP", optional=True, help="List only the mounts of this user or group.")
_PATH = argument("path", "PATH", help="Where the folder is in the tree of those who get it, such as /projects.")
_RIGHTS_HELP = f"Some of {','.join(Right)}, separated by commas; {_NONE} hides the folder."
_FOLDER_HELP = "The folder in the connection. {user} and {group} stand for the names of those who get the mount."

COMMANDS = {
    "mount": Group(
        "Manage mounts: the folders that the trees of users and groups consist of.",
        {
            "add": Command(
                add,
                "Give a user or a group a folder of a connection, at a path of their tree.\n\n"
                "Of several mounts, the one with the longest matching path wins. At the same path, the user's own wins "
                "over those of groups, and an earlier group's over a later one's.",
                (
                    _OWNER,
                    _PATH,
                    option(
                        "--connection",
                        metavar="NAME",
                        missing="--connection is missing",
                        help="The connection that holds the folder.",
                    ),
                    option("--folder", metavar="FOLDER", missing="--folder is missing", help=_FOLDER_HELP),
                    option(
                        "--rights",
                        metavar="LIST",
                        convert=rights_or_none,
                        default=DEFAULT_RIGHTS,
                        help=f"{_RIGHTS_HELP} Default: all except share.",
                    ),
                    EXISTING_FOLDER,
                ),
                "Examples:\n"
                "  portico mount add anna /archive --connection cloud --folder /2026 --rights list,download\n"
                "  portico mount add @staff /home --connection disk --folder '/homes/{user}'",
            ),
            "set": Command(
                set_,
                "Change a mount. Only the given options change.",
                (
                    _OWNER,
                    _PATH,
                    option("--connection", metavar="NAME", help="The connection that holds the folder."),
                    option("--folder", metavar="FOLDER", help=_FOLDER_HELP),
                    option("--rights", metavar="LIST", convert=rights_or_none, help=_RIGHTS_HELP),
                    option("--path", dest="new_path", metavar="PATH", help="Another path in the tree."),
                    EXISTING_FOLDER,
                ),
                "Example:\n  portico mount set @staff /archive --rights list,download",
            ),
            "list": Command(list_, "List mounts, as they were given.", (_OPTIONAL_OWNER, JSON)),
            "remove": Command(remove, "Remove a mount, but not its files.", (_OWNER, _PATH)),
        },
        "Example:\n  portico mount add @staff /shared --connection disk --folder /shared",
    )
}
