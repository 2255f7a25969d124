"""`portico user …`: manage Web Users."""

from collections.abc import Mapping
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from portico.cli.administration.accounts import Accounts, audited, change, read_accounts, with_accounts
from portico.cli.administration.home import remembered_address
from portico.cli.administration.home_setup import forget_password_file, generate_password, with_new_accounts
from portico.cli.console.exits import UsageMistake
from portico.cli.console.output import JSON, Facts, print_json, show_list, show_one
from portico.cli.console.parser import Command, Exclusive, Group, argument, flag, option
from portico.cli.console.terminal import ask_new_password, at_terminal, read_standard_input, something_is_piped
from portico.model.rights import DEFAULT_RIGHTS, Right, parse_rights, shown

if TYPE_CHECKING:
    from portico.store.users import User

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

    async def action(accounts: Accounts) -> "tuple[User, Invited | None]":
        async with audited(accounts.audit, "user.add", options.name):
            user = await accounts.users.add(
                options.name, password, connection=options.connection or "local", root=options.root, rights=rights
            )
            return user, await _invitation(accounts, user.name) if options.invite else None

    user, invited = with_new_accounts(options.home, action)
    if options.as_json:
        print_json({**_facts(user), "password": password if generate else None, **(invited or {})})
        return
    print(f"Added the Web User {user.name} with the root {user.root.path} in the connection {user.root.connection}.")
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
    base = await _address(accounts)
    return {"invitation": f"{base.rstrip('/')}/invite#{made.token}", "invitationExpiresAt": made.expires_at}


async def _address(accounts: Accounts) -> str:
    """Where users find the gateway: as the settings or the other nodes say, or else where it was last started."""
    settings = accounts.settings
    if settings.public_url:
        return settings.public_url
    if not settings.database_in_home:
        from portico.accounts.cluster import Cluster

        if agreed := (await Cluster(accounts.database).identity()).get("server.public-url"):
            return agreed
    return remembered_address(settings.home).url


def _show_invitation(home: Path, invited: Invited) -> None:
    link = str(invited["invitation"])
    print(f"The link to set a password, valid once within 7 days: {link}")
    if link.startswith("/"):
        print("Put your gateway's address before it, or set server.public-url.")
    remembered = remembered_address(home)
    if remembered.is_local and link.startswith(f"{remembered.url}/invite#"):
        print(
            f"{remembered.url} works only on the gateway's machine; replace it with your gateway's "
            "address, or set server.public-url."
        )


def set_(options: SimpleNamespace) -> None:
    given = {"connection": options.connection, "root": options.root, "rights": options.rights}
    if not options.password_stdin and all(value is None for value in given.values()):
        raise UsageMistake("There is nothing to change; add --connection, --root, --rights or --password-stdin.")
    password = read_standard_input() if options.password_stdin else None

    async def action(accounts: Accounts) -> None:
        changed = [key for key, value in {**given, "password": password}.items() if value is not None]
        async with audited(accounts.audit, "user.set", options.name, changed):
            await accounts.users.change(options.name, **given)
            if password is not None:
                await _set_password(accounts, options.name, password)

    with_accounts(options.home, action)
    print(f"Changed the Web User {options.name}.")


def list_(options: SimpleNamespace) -> None:
    users = read_accounts(options.home, lambda accounts: accounts.users.list())
    rows = [_facts(user) for user in users]
    if not options.as_json:
        rows = [{key: value for key, value in row.items() if not key.endswith("At")} for row in rows]
    empty = "There are no Web Users yet; add one with 'portico user add NAME'."
    show_list(rows, as_json=options.as_json, empty=empty)


def show(options: SimpleNamespace) -> None:
    user = read_accounts(options.home, lambda accounts: accounts.users.get(options.name))
    show_one(_facts(user), as_json=options.as_json)


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


def _change_disabled(home: Path, name: str, word: str, *, disabled: bool) -> None:
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


def _facts(user: "User") -> Facts:
    return {
        "name": user.name,
        "connection": user.root.connection,
        "root": str(user.root.path),
        "rights": shown(user.rights),
        "disabled": user.disabled,
        "createdAt": user.created_at,
        "passwordChangedAt": user.password_changed_at,
    }


_NAME_ARGUMENT = argument("name", "NAME", help="The user's name.")

_ACCOUNT_OPTIONS = (
    option("--connection", metavar="NAME", help="The connection that holds the user's root."),
    option("--root", metavar="PATH", help="The folder that the user sees as /."),
    option("--rights", metavar="LIST", convert=rights, help=f"Some of {','.join(Right)}, separated by commas."),
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
                (_NAME_ARGUMENT, *_ACCOUNT_OPTIONS, _PASSWORD_OPTION, *_GENERATE_OPTION, *_INVITE_OPTION, JSON),
                "Examples:\n"
                "  portico user add anna\n"
                "  portico user add bob --root /team --rights list,download --generate\n"
                "  portico user add carol --invite",
            ),
            "set": Command(
                set_,
                "Change a Web User. Only the given options change.",
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
