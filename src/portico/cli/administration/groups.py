"""`portico group …`: manage groups and their members."""

from types import SimpleNamespace
from typing import TYPE_CHECKING

from portico.cli.administration.account_limits import LIMIT_OPTIONS, changed_names, given_limits
from portico.cli.administration.accounts import Accounts, audited, change, read_accounts, with_accounts
from portico.cli.administration.existing_folders import EXISTING_FOLDER, check_new_folders
from portico.cli.console.exits import UsageMistake
from portico.cli.console.output import JSON, Facts, show_list, show_one
from portico.cli.console.parser import Command, Exclusive, Paths, argument, flag, option
from portico.cli.console.parser import Group as CommandGroup

if TYPE_CHECKING:
    from portico.store.groups import Group


def add(options: SimpleNamespace) -> None:
    name = options.name
    change(
        options.home,
        "group.add",
        name,
        lambda accounts: accounts.groups.add(name, before=options.before, **given_limits(options)),
    )
    print(f"Added the group {name}. Give it mounts with 'portico mount add @{name} PATH'.")


def set_(options: SimpleNamespace) -> None:
    changes = given_limits(options)
    changes |= {"before": options.before} if options.before else {}
    changes |= {"last": True} if options.last else {}
    changes |= {"new_name": options.new_name} if options.new_name else {}
    if not changes:
        raise UsageMistake("There is nothing to change; add --name, --before, --last, --expires or --addresses.")

    async def action(accounts: Accounts) -> None:
        async with audited(accounts.journal, "group.set", options.name, changed_names(changes)):
            await accounts.groups.change(options.name, **changes)

    with_accounts(options.home, action)
    print(f"Changed the group {options.name}.")


def list_(options: SimpleNamespace) -> None:
    groups = read_accounts(options.home, lambda accounts: accounts.groups.list())
    rows = [_facts(group) for group in groups]
    empty = "There are no groups yet; add one with 'portico group add NAME'."
    show_list(rows, as_json=options.as_json, empty=empty)


def show(options: SimpleNamespace) -> None:
    group = read_accounts(options.home, lambda accounts: accounts.groups.get(options.name))
    show_one(_facts(group), as_json=options.as_json)


def delete(options: SimpleNamespace) -> None:
    name = options.name
    change(options.home, "group.delete", name, lambda accounts: accounts.groups.delete(name))
    print(f"Deleted the group {name} and its mounts. Its members are still users, and its files are still there.")


def join(options: SimpleNamespace) -> None:
    name, users = options.name, options.paths

    async def action(accounts: Accounts) -> None:
        async with audited(accounts.journal, "group.join", name, users):
            await check_membership(accounts, [name], users, accept=options.existing_folder)
            await accounts.groups.join(name, users)

    with_accounts(options.home, action)
    print(f"Added {', '.join(users)} to the group {name}.")


def leave(options: SimpleNamespace) -> None:
    name, users = options.name, options.paths

    async def action(accounts: Accounts) -> None:
        async with audited(accounts.journal, "group.leave", name, users):
            await accounts.groups.leave(name, users)

    with_accounts(options.home, action)
    print(f"Removed {', '.join(users)} from the group {name}.")


async def check_membership(accounts: Accounts, names: list[str], users: list[str], *, accept: bool) -> None:
    """Refuse new members who would get a folder of their own that has files already."""
    from portico.accounts.mounts import owner_of
    from portico.accounts.names import name_key

    if accept:
        return
    given = []
    for name in names:
        group = await accounts.groups.get(name)
        rules = [each.rule for each in await accounts.mounts.list(owner_of(f"@{group.name}"))]
        members = {name_key(member) for member in group.members}
        new = [user for user in users if name_key(user) not in members]
        given += [(user, rule, group.name) for user in new for rule in rules]
    await check_new_folders(accounts, given, accept=accept)


def _facts(group: "Group") -> Facts:
    return {
        "name": group.name,
        "members": group.members,
        "expiresAt": group.expires_at,
        "addresses": [str(each) for each in group.addresses],
    }


_NAME = argument("name", "NAME", help="The group's name.")
_BEFORE = option("--before", metavar="GROUP", help="Put the group before this one. An earlier group's mounts win.")
_USERS = Paths("USER …", {"USER": "The users' names."}, at_least=1, noun="user")

COMMANDS = {
    "group": CommandGroup(
        "Manage groups: users who share mounts and limits.",
        {
            "add": Command(
                add,
                "Add a group, after all others.\n\nGroups are ordered: if two give the same path, the earlier one wins.",
                (_NAME, _BEFORE, *LIMIT_OPTIONS),
                "Example:\n  portico group add partners --expires 2027-01-31",
            ),
            "set": Command(
                set_,
                "Change a group's name, its place in the order, or its limits.\n\n"
                "The limits hold for all members. Of several groups and the user's own, the strictest apply.",
                (
                    _NAME,
                    option("--name", dest="new_name", metavar="NAME", help="Another name."),
                    _BEFORE,
                    flag("--last", help="Put the group after all others."),
                    Exclusive("--before", "--last"),
                    *LIMIT_OPTIONS,
                ),
                "Example:\n  portico group set partners --addresses 192.0.2.0/24",
            ),
            "list": Command(list_, "List all groups with their members, in their order.", (JSON,)),
            "show": Command(show, "Show one group.", (_NAME, JSON)),
            "join": Command(
                join,
                "Add users to a group.",
                (_NAME, _USERS, EXISTING_FOLDER),
                "Example:\n  portico group join partners anna bob",
            ),
            "leave": Command(leave, "Remove users from a group.", (_NAME, _USERS)),
            "delete": Command(delete, "Delete a group and its mounts, but no users and no files.", (_NAME,)),
        },
        "Example:\n  portico group add partners",
    )
}
