"""`portico user …`: the Web Users."""

from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated

import typer

from portico.cli.accounts import Accounts, change, with_accounts
from portico.cli.exits import UsageMistake
from portico.cli.first_start import forget_password_file, generate_password, with_new_accounts
from portico.cli.output import AsJson, Facts, Name, show_list, show_one, timestamp
from portico.cli.terminal import at_terminal, read_standard_input, something_is_piped
from portico.rights import ALL_RIGHTS, Right, parse_rights

if TYPE_CHECKING:
    from portico.accounts.users import User

app = typer.Typer(
    help="Web Users: who may sign in, and what they see.", no_args_is_help=True, rich_markup_mode=None
)

ConnectionOption = Annotated[
    str | None,
    typer.Option("--connection", metavar="NAME", help="The connection that holds the user's root."),
]
RootOption = Annotated[
    str | None, typer.Option("--root", metavar="PATH", help="The folder that the user sees as /.")
]
RightsOption = Annotated[
    str | None,
    typer.Option("--rights", metavar="LIST", help=f"Some of {','.join(Right)}, separated by commas."),
]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", metavar="ADDRESS", help="Clear the failures of this address, too."),
]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input.")
]
Generate = Annotated[bool, typer.Option("--generate", help="Make a password up, and print it.")]


@app.command()
def add(
    context: typer.Context,
    name: Name,
    connection: ConnectionOption = None,
    root: RootOption = None,
    rights: RightsOption = None,
    password_stdin: PasswordStdin = False,
    generate: Generate = False,
) -> None:
    """Add a Web User; left out, the connection is 'local', the root /NAME, the rights all."""
    held = ALL_RIGHTS if rights is None else _rights(rights)
    if not (password_stdin or generate or at_terminal()):
        if something_is_piped():
            raise UsageMistake(
                "Standard input is not a terminal: add --password-stdin to read the password from it, "
                "or --generate to have one made up."
            )
        generate = True
    if not (password_stdin or generate):  # before anything is asked
        with_new_accounts(context.obj, lambda accounts: accounts.users.check_new(name))
    password, made_up = _new_password(stdin=password_stdin, generate=generate)

    async def action(accounts: Accounts) -> "User":
        with accounts.noted("user.add", name):
            return await accounts.users.add(
                name, password, connection=connection or "local", root=root, rights=held
            )

    user = with_new_accounts(context.obj, action)
    typer.echo(
        f"Added the Web User {user.name}, whose root is {user.root} in the connection {user.connection}."
    )
    _show_made_up(password, made_up)


@app.command("set")
def set_(
    context: typer.Context,
    name: Name,
    connection: ConnectionOption = None,
    root: RootOption = None,
    rights: RightsOption = None,
    password_stdin: PasswordStdin = False,
) -> None:
    """Change what is given, and leave the rest as it is."""
    if connection is None and root is None and rights is None and not password_stdin:
        raise UsageMistake("Say what to change: --connection, --root, --rights or --password-stdin.")
    held = None if rights is None else _rights(rights)
    password = read_standard_input() if password_stdin else None

    async def action(accounts: Accounts) -> None:
        given = {"connection": connection, "root": root, "rights": held, "password": password}
        with accounts.noted("user.set", name, [key for key, value in given.items() if value is not None]):
            await accounts.users.change(name, connection=connection, root=root, rights=held)
            if password is not None:
                await _set_password(accounts, name, password)

    with_accounts(context.obj, action)
    typer.echo(f"Changed the Web User {name}.")


@app.command("list")
def list_(context: typer.Context, as_json: AsJson = False) -> None:
    """List all Web Users."""
    users = with_accounts(context.obj, lambda accounts: accounts.users.list())
    rows = [{key: value for key, value in _facts(user).items() if not key.endswith("At")} for user in users]
    show_list(rows, as_json=as_json, empty="There is no Web User yet; add one with 'portico user add NAME'.")


@app.command()
def show(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Show one Web User."""
    show_one(_facts(with_accounts(context.obj, lambda accounts: accounts.users.get(name))), as_json=as_json)


@app.command()
def password(
    context: typer.Context, name: Name, password_stdin: PasswordStdin = False, generate: Generate = False
) -> None:
    """Set a new password; the user is signed out everywhere."""
    if not (password_stdin or generate or at_terminal()):
        raise UsageMistake(
            "Send the new password with --password-stdin, or have one made up with --generate."
        )
    with_accounts(context.obj, lambda accounts: accounts.users.get(name))  # before anything is asked
    new, made_up = _new_password(stdin=password_stdin, generate=generate)
    change(context.obj, "user.password", name, lambda accounts: _set_password(accounts, name, new))
    typer.echo(f"Changed the password of {name}.")
    _show_made_up(new, made_up)


@app.command()
def disable(context: typer.Context, name: Name) -> None:
    """Sign a Web User out everywhere, and let nobody in by that name."""
    change(context.obj, "user.disable", name, lambda accounts: accounts.users.change(name, disabled=True))
    typer.echo(f"Disabled the Web User {name}.")


@app.command()
def enable(context: typer.Context, name: Name) -> None:
    """Let a disabled Web User in again."""
    change(context.obj, "user.enable", name, lambda accounts: accounts.users.change(name, disabled=False))
    typer.echo(f"Enabled the Web User {name}.")


@app.command()
def unlock(context: typer.Context, name: Name, address: AddressOption = None) -> None:
    """Clear the failed sign-ins that are counted for a Web User."""
    if address is not None:
        _check_address(address)
    change(context.obj, "user.unlock", name, lambda accounts: accounts.users.unlock(name, address=address))
    typer.echo(f"Cleared the failed sign-ins of {name}{f' and of the address {address}' if address else ''}.")


@app.command()
def delete(context: typer.Context, name: Name) -> None:
    """Delete a Web User; the files stay."""
    change(context.obj, "user.delete", name, lambda accounts: accounts.users.delete(name))
    forget_password_file(context.obj, name)
    typer.echo(f"Deleted the Web User {name}; the files are still there.")


async def _set_password(accounts: Accounts, name: str, new: str) -> None:
    await accounts.users.set_password(name, new)
    forget_password_file(accounts.settings.home, name)


def _new_password(*, stdin: bool, generate: bool) -> tuple[str, bool]:
    """A password from where it was asked for, and whether we made it up."""
    if stdin and generate:
        raise UsageMistake("Give either --password-stdin or --generate.")
    if stdin:
        return read_standard_input(), False
    if generate:
        return generate_password(), True
    return typer.prompt("Password", hide_input=True, confirmation_prompt="The same again"), False


def _show_made_up(password: str, made_up: bool) -> None:
    if made_up:
        typer.echo(f"The password, shown only now: {password}")


def _check_address(text: str) -> None:
    try:
        ip_address(text)
    except ValueError:
        raise UsageMistake(f"{text!r} is no IP address; write it as 192.0.2.7 or 2001:db8::7.") from None


def _rights(text: str) -> frozenset[Right]:
    try:
        return parse_rights(text)
    except ValueError as error:
        raise UsageMistake(f"{error}.") from None


def _facts(user: "User") -> Facts:
    return {
        "name": user.name,
        "connection": user.connection,
        "root": user.root,
        "rights": [right for right in Right if right in user.rights],
        "disabled": user.disabled,
        "createdAt": timestamp(user.created_at),
        "passwordChangedAt": timestamp(user.password_changed_at),
    }
