"""`portico user …`: manage Web Users."""

from collections.abc import Mapping
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path as Home
from types import SimpleNamespace
from typing import TYPE_CHECKING

from portico.cli.administration.account_limits import LIMIT_OPTIONS, changed_names, given_limits
from portico.cli.administration.accounts import Accounts, audited, change, read_accounts, with_accounts
from portico.cli.administration.existing_folders import EXISTING_FOLDER, check_new_folders
from portico.cli.administration.groups import check_membership
from portico.cli.administration.home import remembered_address
from portico.cli.administration.home_setup import forget_password_file, generate_password, with_new_accounts
from portico.cli.console.exits import UsageMistake
from portico.cli.console.output import JSON, Facts, print_json, show_list, show_one
from portico.cli.console.parser import Command, Exclusive, Group, argument, flag, option
from portico.cli.console.terminal import ask_new_password, at_terminal, read_standard_input, something_is_piped
from portico.model.paths import Path
from portico.model.reach import MountRule
from portico.model.rights import DEFAULT_RIGHTS, Right, parse_rights, shown

if TYPE_CHECKING:
    from portico.model.reach import Mount
    from portico.store.users import User, UserRecord

_GENERATED = "The password, shown only once: {}"

Invited = Mapping[str, object]
"""The link of an invitation and its end, by their names in JSON."""


def add(options: SimpleNamespace) -> None:
    rights = DEFAULT_RIGHTS if options.rights is None else options.rights
    if not rights:
        raise UsageMistake(f"--rights is empty; give some of {', '.join(Right)}.")
    generate = options.generate
    if not (options.password_stdin or generate or options.invite or at_terminal()):
        if something_is_piped():
            raise UsageMistake(
                "The password can't be prompted for, because standard input is not a terminal; "
                "send it with --password-stdin, or generate one with --generate."
            )
        generate = True
    if not (options.password_stdin or generate or options.invite):  # before the prompt
        with_new_accounts(options.home, lambda accounts: accounts.users.check_new(options.name))
    password = None
    if not options.invite:
        password = _new_password(stdin=options.password_stdin, generate=generate)

    async def action(accounts: Accounts) -> "tuple[UserRecord, list[str], Invited | None]":
        name, connection = options.name, options.connection or "local"
        async with audited(accounts.journal, "user.add", name):
            mounts = None
            if options.no_root:
                mounts = []
            elif options.root is not None:
                mounts = [MountRule(Path(), connection, options.root, rights)]
                given = [(name, rule, None) for rule in mounts]
                await check_new_folders(accounts, given, accept=options.existing_folder)
            await check_membership(accounts, options.group, [name], accept=options.existing_folder)
            user = await accounts.users.add(
                name,
                password,
                connection=connection,
                rights=rights,
                mounts=mounts,
                groups=options.group,
                **given_limits(options),
            )
            invited = await _invitation(accounts, user.name) if options.invite else None
            return *await _known(accounts, user.name), invited

    record, groups, invited = with_new_accounts(options.home, action)
    user = record.user
    if options.as_json:
        print_json({**_facts(record, groups), "password": password if generate else None, **(invited or {})})
        return
    top = user.reach.at(Path())
    if top and not top.group:
        print(
            f"Added the Web User {user.name} with the root {top.place.path} in the connection {top.place.connection}."
        )
    else:
        count = len(user.reach.mounts)
        print(f"Added the Web User {user.name} with {count} mount{'' if count == 1 else 's'}.")
    if generate and password:
        print(_GENERATED.format(password))
    if invited:
        _show_invitation(options.home, invited)


def invite(options: SimpleNamespace) -> None:
    name = options.name
    invited = change(options.home, "user.invite", name, lambda accounts: _invitation(accounts, name))
    if options.as_json:
        print_json({"name": name, **invited})
    else:
        _show_invitation(options.home, invited)


async def _invitation(accounts: Accounts, name: str) -> Invited:
    """The link of a new invitation. The token is in its fragment, which browsers do not send: no log has it."""
    from portico.accounts.passwords import Passwords
    from portico.accounts.users import Invitations

    with closing(Passwords()) as passwords:
        made = await Invitations(accounts.database, passwords).make(name)
    base = await gateway_address(accounts)
    return {"invitation": f"{base.rstrip('/')}/invite#{made.token}", "invitationExpiresAt": made.expires_at}


async def gateway_address(accounts: Accounts) -> str:
    """Where users find the gateway: as the settings or the other nodes say, or else where it was last started."""
    settings = accounts.settings
    if settings.public_url:
        return settings.public_url
    if not settings.database_in_home:
        from portico.accounts.cluster import Cluster

        if agreed := (await Cluster(accounts.database).identity()).get("server.public-url"):
            return agreed
    return remembered_address(settings.home).url


def _show_invitation(home: Home, invited: Invited) -> None:
    link = str(invited["invitation"])
    print(f"The link to set a password, valid once within 7 days: {link}")
    explain_link(home, link)


def explain_link(home: Home, link: str) -> None:
    """Say what to put before a link that leads nowhere, or only from this machine."""
    if link.startswith("/"):
        print("Put your gateway's address before it, or set server.public-url.")
    remembered = remembered_address(home)
    if remembered.is_local and link.startswith(f"{remembered.url}/invite#"):
        print(
            f"{remembered.url} works only on the gateway's machine; replace it with your gateway's "
            "address, or set server.public-url."
        )


def set_(options: SimpleNamespace) -> None:
    mount = {"connection": options.connection, "root": options.root, "rights": options.rights}
    given = {name: value for name, value in mount.items() if value is not None} | given_limits(options)
    if not options.password_stdin and not given:
        raise UsageMistake(
            "There is nothing to change; add --connection, --root, --rights, --expires, --addresses or --password-stdin."
        )
    password = read_standard_input() if options.password_stdin else None

    async def action(accounts: Accounts) -> None:
        changed = [*changed_names(given), *(["password"] if options.password_stdin else [])]
        async with audited(accounts.journal, "user.set", options.name, changed):
            await _check_root(accounts, options)
            await accounts.users.change(options.name, **given)
            if password is not None:
                await _set_password(accounts, options.name, password)

    with_accounts(options.home, action)
    print(f"Changed the Web User {options.name}.")


def list_(options: SimpleNamespace) -> None:
    async def action(accounts: Accounts) -> "list[tuple[UserRecord, list[str]]]":
        groups = await accounts.groups.list()
        return [
            (record, [group.name for group in groups if record.user.name in group.members])
            for record in await accounts.users.records()
        ]

    found = read_accounts(options.home, action)
    if options.as_json:
        rows = [_facts(record, groups) for record, groups in found]
    else:
        rows = [row for record, _ in found for row in _rows(record.user)]
    empty = "There are no Web Users yet; add one with 'portico user add NAME'."
    show_list(rows, as_json=options.as_json, empty=empty)


def show(options: SimpleNamespace) -> None:
    record, groups = read_accounts(options.home, lambda accounts: _known(accounts, options.name))
    facts = _facts(record, groups)
    if options.as_json:
        print_json(facts)
        return
    left_out = ("connection", "root", "rights", "mounts")
    show_one({key: value for key, value in facts.items() if key not in left_out}, as_json=False)
    print()
    rows = [{key: value for key, value in row.items() if key not in ("name", "disabled")} for row in _rows(record.user)]
    show_list(rows if record.user.reach.mounts else [], as_json=False, empty="This user has no mounts.")


def password(options: SimpleNamespace) -> None:
    if not (options.password_stdin or options.generate or at_terminal()):
        raise UsageMistake(
            "The new password is missing; send it with --password-stdin, or generate one with --generate."
        )
    name = options.name
    read_accounts(options.home, lambda accounts: accounts.users.get(name))  # before the prompt
    new = _new_password(stdin=options.password_stdin, generate=options.generate)
    change(options.home, "user.password", name, lambda accounts: _set_password(accounts, name, new))
    if options.as_json:
        print_json({"name": name, "password": new if options.generate else None})
        return
    print(f"Changed the password of {name}.")
    if options.generate:
        print(_GENERATED.format(new))


def disable(options: SimpleNamespace) -> None:
    _change_disabled(options.home, options.name, "disable", disabled=True)


def enable(options: SimpleNamespace) -> None:
    _change_disabled(options.home, options.name, "enable", disabled=False)


def unlock(options: SimpleNamespace) -> None:
    name, address = options.name, options.address
    change(options.home, "user.unlock", name, lambda accounts: accounts.users.unlock(name, address=address))
    print(f"Cleared the failed sign-ins of {name}{f' and of the address {address}' if address else ''}.")


def delete(options: SimpleNamespace) -> None:
    name = options.name
    change(options.home, "user.delete", name, lambda accounts: accounts.users.delete(name))
    forget_password_file(options.home, name)
    print(f"Deleted the Web User {name}. Their files are still there.")


def _change_disabled(home: Home, name: str, word: str, *, disabled: bool) -> None:
    change(home, f"user.{word}", name, lambda accounts: accounts.users.change(name, disabled=disabled))
    print(f"{word.capitalize()}d the Web User {name}.")


async def _set_password(accounts: Accounts, name: str, new: str) -> None:
    await accounts.users.set_password(name, new)
    forget_password_file(accounts.settings.home, name)


def _new_password(*, stdin: bool, generate: bool) -> str:
    if stdin:
        return read_standard_input()
    if generate:
        return generate_password()
    from portico.accounts.passwords import check_password

    return ask_new_password(check_password)


def _ip_address(text: str) -> str:
    try:
        ip_address(text)
    except ValueError:
        raise UsageMistake(f"{text!r} is not an IP address; use one like 192.0.2.7 or 2001:db8::7.") from None
    return text


def rights(text: str) -> frozenset[Right]:
    try:
        return parse_rights(text)
    except ValueError as error:
        raise UsageMistake(f"{error}.") from None


async def _known(accounts: Accounts, name: str) -> "tuple[UserRecord, list[str]]":
    """A user, and the names of their groups."""
    record = await accounts.users.record(name)
    return record, await accounts.groups.of_user(record.user.id)


async def _check_root(accounts: Accounts, options: SimpleNamespace) -> None:
    """Refuse another folder of the user's own that has files already."""
    if options.root is None:
        return
    record = await accounts.users.record(options.name)
    top = next((rule for rule in record.mounts if rule.path.is_root), None)
    if top:
        rule = MountRule(Path(), options.connection or top.connection, options.root, top.rights)
        await check_new_folders(accounts, [(record.user.name, rule, None)], accept=options.existing_folder)


def _facts(record: "UserRecord", groups: list[str]) -> Facts:
    """`connection`, `root` and `rights` are of the mount at `/`: for most users it is the only one."""
    user = record.user
    top = user.reach.at(Path())
    return {
        "name": user.name,
        "connection": top and top.place.connection,
        "root": top and str(top.place.path),
        "rights": shown(top.rights if top else ()),
        "disabled": user.disabled,
        "createdAt": user.created_at,
        "passwordChangedAt": user.password_changed_at,
        "mounts": [_mount_facts(mount) for mount in user.reach.mounts],
        "groups": groups,
        "expiresAt": record.expires_at,
        "addresses": [str(each) for each in record.addresses],
    }


def _mount_facts(mount: "Mount") -> Facts:
    return {
        "path": str(mount.path),
        "connection": mount.place.connection,
        "folder": str(mount.place.path),
        "rights": shown(mount.rights),
        "group": mount.group,
    }


def _rows(user: "User") -> list[Facts]:
    """A line for each mount, with the user's name in the first one."""
    rows: list[Facts] = []
    for mount in user.reach.mounts or (None,):
        facts = dict.fromkeys(("path", "connection", "folder", "rights", "group"))
        if mount:
            facts = {**_mount_facts(mount), "rights": shown(mount.rights) or "none"}
        first = {"name": user.name if not rows else None}
        rows.append({**first, **facts, "disabled": user.disabled if not rows else None})
    return rows


_NAME_ARGUMENT = argument("name", "NAME", help="The user's name.")

_ACCOUNT_OPTIONS = (
    option("--connection", metavar="NAME", help="The connection that holds the user's root."),
    option("--root", metavar="PATH", help="The folder that the user sees as /; {user} stands for the user's name."),
    option("--rights", metavar="LIST", convert=rights, help=f"Some of {','.join(Right)}, separated by commas."),
    *LIMIT_OPTIONS,
    EXISTING_FOLDER,
)

_TREE_OPTIONS = (
    flag("--no-root", help="Add no mount at /: folders come from groups and 'portico mount add'."),
    Exclusive("--no-root", "--root"),
    Exclusive("--no-root", "--connection"),
    option("--group", metavar="NAME", repeatable=True, default=(), help="Add the user to this group. Can be repeated."),
)

_PASSWORD_OPTION = flag("--password-stdin", help="Read the password from standard input.")

_GENERATE_OPTION = (
    flag("--generate", help="Generate a password and print it."),
    Exclusive("--password-stdin", "--generate"),
)

_INVITE_OPTION = (
    flag("--invite", help="Set no password; print a link for the user to set one."),
    Exclusive("--password-stdin", "--invite"),
    Exclusive("--generate", "--invite"),
)

_ADDRESS_OPTION = option(
    "--address", metavar="ADDRESS", convert=_ip_address, help="Also clear this IP address's failed sign-ins."
)


COMMANDS = {
    "user": Group(
        "Manage Web Users: who can sign in, and what they see.",
        {
            "add": Command(
                add,
                "Add a Web User.\n\nBy default, the connection is 'local', the root is /NAME, and "
                "the user has all rights except share. On a terminal, you are prompted for the "
                "password. Without a terminal, such as in a service, a password is generated; if "
                "standard input is a pipe, --password-stdin or --generate is required.",
                (
                    _NAME_ARGUMENT,
                    *_ACCOUNT_OPTIONS,
                    *_TREE_OPTIONS,
                    _PASSWORD_OPTION,
                    *_GENERATE_OPTION,
                    *_INVITE_OPTION,
                    JSON,
                ),
                "Examples:\n"
                "  portico user add anna\n"
                "  portico user add bob --root /team --rights list,download --generate\n"
                "  portico user add carol --invite\n"
                "  portico user add dave --no-root --group partners --expires 90d",
            ),
            "set": Command(
                set_,
                "Change a Web User. Only the given options change. --connection, --root and --rights change the mount "
                "at /; change others with 'portico mount set'.",
                (_NAME_ARGUMENT, *_ACCOUNT_OPTIONS, _PASSWORD_OPTION),
                "Example:\n  portico user set anna --rights list,download",
            ),
            "list": Command(list_, "List all Web Users.", (JSON,)),
            "show": Command(show, "Show one Web User.", (_NAME_ARGUMENT, JSON)),
            "password": Command(
                password,
                "Set a new password, and sign the user out everywhere.",
                (_NAME_ARGUMENT, _PASSWORD_OPTION, *_GENERATE_OPTION, JSON),
            ),
            "invite": Command(
                invite,
                "Print a link for a Web User to set a password, valid once within 7 days. Earlier "
                "links end. The current password works until the new one is set.",
                (_NAME_ARGUMENT, JSON),
            ),
            "disable": Command(disable, "Sign a Web User out everywhere, and refuse new sign-ins.", (_NAME_ARGUMENT,)),
            "enable": Command(enable, "Let a disabled Web User sign in again.", (_NAME_ARGUMENT,)),
            "unlock": Command(
                unlock, "Clear a Web User's count of failed sign-ins.", (_NAME_ARGUMENT, _ADDRESS_OPTION)
            ),
            "delete": Command(delete, "Delete a Web User, but not their files.", (_NAME_ARGUMENT,)),
        },
        "Example:\n  portico user add anna --rights list,download,upload",
    )
}
