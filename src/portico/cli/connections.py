"""`portico connection …`: the storage services that hold the files."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from portico.cli.accounts import Accounts, change, with_accounts
from portico.cli.exits import FAILED, UsageMistake, exit_code, sentence
from portico.cli.first_start import with_new_accounts
from portico.cli.output import AsJson, Facts, Name, show_list, show_one
from portico.cli.storage import problem
from portico.cli.terminal import read_standard_input, something_is_piped
from portico.errors import NotPossible, PorticoError
from portico.rights import Right

if TYPE_CHECKING:
    from portico.accounts.connections import Connection

Text = TypeVar("Text", str, str | None)

app = typer.Typer(
    help="Connections: the storage services that hold the files.", no_args_is_help=True, rich_markup_mode=None
)

KindOption = Annotated[
    str,
    typer.Option(
        "--kind", metavar="KIND", help="local, s3, azure-blob, azure-files or gcs.", show_default=False
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of the kind; may be repeated."),
]
SecretStdin = Annotated[
    bool, typer.Option("--secret-stdin", help="Read secrets from standard input, KEY=VALUE lines.")
]


@app.command()
def add(
    context: typer.Context,
    name: Name,
    kind: KindOption,
    option: Options = None,
    secret_stdin: SecretStdin = False,
) -> None:
    """Add a connection; try it with 'portico connection test NAME'."""
    from portico.providers.registry import check_options, missing_extra

    values = _given(option, secret_stdin)
    check_options(kind, values)
    plain, secret = _by_secrecy(values)

    async def action(accounts: Accounts) -> "Connection":
        with accounts.noted("connection.add", name, values):
            return await accounts.connections.add(name, kind, plain, secret)

    added = with_new_accounts(context.obj, action)
    typer.echo(f"Added the connection {name} of kind {kind}.")
    _warn(added, context.obj)
    if install := missing_extra(kind):
        typer.echo(f"Warning: this kind needs an extra before it can be used: {install}", err=True)


@app.command("set")
def set_(
    context: typer.Context,
    name: Name,
    kind: KindOption = "",
    option: Options = None,
    secret_stdin: SecretStdin = False,
) -> None:
    """Change the options that are given; KEY= takes one away. A running gateway follows at once."""
    from portico.providers.registry import check_options

    values = _given(option, secret_stdin)
    if not values and not kind:
        raise UsageMistake("Say what to change, with --option KEY=VALUE or --secret-stdin.")

    async def action(accounts: Accounts) -> "Connection":
        old = await accounts.connections.get(name)
        if kind not in ("", old.kind):
            raise NotPossible(f"The connection {name} stays of kind {old.kind}; add another for {kind}.")
        merged = {**old.options, **old.secrets, **values}
        check_options(old.kind, {key: value for key, value in merged.items() if value})
        plain, secret = _by_secrecy({key: value or None for key, value in values.items()})
        with accounts.noted("connection.set", name, values):
            return await accounts.connections.change(name, options=plain, secrets=secret)

    changed = with_accounts(context.obj, action)
    typer.echo(f"Changed the connection {name}.")
    _warn(changed, context.obj)


@app.command("list")
def list_(context: typer.Context, as_json: AsJson = False) -> None:
    """List all connections, with what is wrong with a folder; secrets are not shown."""

    async def action(accounts: Accounts) -> list[Facts]:
        in_use = await accounts.connections.in_use()
        return [_facts(each, in_use, context.obj) for each in await accounts.connections.list()]

    empty = "There is no connection yet; add one with 'portico connection add NAME --kind KIND'."
    show_list(with_accounts(context.obj, action), as_json=as_json, empty=empty)


@app.command()
def show(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Show one connection; of a secret, only that it is set."""

    async def action(accounts: Accounts) -> Facts:
        connection = await accounts.connections.get(name)
        return _facts(connection, await accounts.connections.in_use(), context.obj)

    show_one(with_accounts(context.obj, action), as_json=as_json)


@app.command()
def test(context: typer.Context, name: Name) -> None:
    """List, write, read and delete a probe file, and say what is not permitted."""
    errors = with_accounts(context.obj, lambda accounts: _probe(accounts, name))
    if errors:
        typer.echo(f"The connection {name} does not work as it is.", err=True)
        codes = {exit_code(error) for error in errors}
        raise typer.Exit(codes.pop() if len(codes) == 1 and FAILED not in codes else FAILED)
    typer.echo(f"The connection {name} works.")


@app.command()
def delete(context: typer.Context, name: Name) -> None:
    """Delete a connection that no Web User needs; the files in it stay."""
    change(context.obj, "connection.delete", name, lambda accounts: accounts.connections.delete(name))
    typer.echo(f"Deleted the connection {name}; the files in it are still there.")


async def _probe(accounts: Accounts, name: str) -> list[PorticoError]:
    from portico.paths import Path
    from portico.providers.probe import probe
    from portico.providers.registry import PREFIX_OPTION, open_provider

    connection = await accounts.connections.get(name)
    timeout = accounts.settings.provider_timeout.total_seconds()
    provider = open_provider(connection.kind, {**connection.options, **connection.secrets}, timeout)
    folder = Path.parse(connection.options.get(PREFIX_OPTION, ""))
    errors = []
    try:
        async for step in probe(provider, folder):
            if step.error:
                errors.append(step.error)
            typer.echo(f"{step.name}: {sentence(step.error) if step.error else 'ok'}")
    finally:
        await provider.close()
    return errors


def _given(options: Iterable[str] | None, secret_stdin: bool) -> dict[str, str]:
    from portico.providers.registry import PATH_OPTIONS, SECRET_OPTIONS

    values = _pairs(options or (), "--option")
    for key in sorted(SECRET_OPTIONS & {key for key, value in values.items() if value}):
        typer.echo(
            f"Warning: others on this machine can see {key} in the command; --secret-stdin keeps it hidden.",
            err=True,
        )
    if secret_stdin:
        lines = (line.strip() for line in read_standard_input().splitlines())
        piped = _pairs(filter(None, lines), "Standard input")
        if twice := sorted(values.keys() & piped.keys()):
            raise UsageMistake(f"{twice[0]} is given both with --option and on standard input.")
        values |= piped
    elif something_is_piped(wait=0):
        typer.echo("Warning: standard input was not read; --secret-stdin reads secrets from it.", err=True)
    # A relative name means the folder in which the command was typed.
    return {
        key: os.path.abspath(value) if value and key in PATH_OPTIONS else value
        for key, value in values.items()
    }


def _pairs(texts: Iterable[str], source: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            # What it holds may be a secret: it is not repeated.
            raise UsageMistake(f"{source} must be KEY=VALUE, with a key before the first equals sign.")
        if key.strip() in pairs:
            raise UsageMistake(f"{source} gives {key.strip()} twice.")
        pairs[key.strip()] = value
    return pairs


def _by_secrecy(values: Mapping[str, Text]) -> tuple[dict[str, Text], dict[str, Text]]:
    from portico.providers.registry import SECRET_OPTIONS

    plain = {key: value for key, value in values.items() if key not in SECRET_OPTIONS}
    return plain, {key: value for key, value in values.items() if key in SECRET_OPTIONS}


def _warn(connection: "Connection", home: Path) -> None:
    if doubt := problem(connection, home, writable=True):
        typer.echo(f"Warning: {doubt}", err=True)


def _facts(connection: "Connection", in_use: Mapping[str, frozenset[Right]], home: Path) -> Facts:
    writable = Right.UPLOAD in in_use.get(connection.name, ())
    return {
        "name": connection.name,
        "kind": connection.kind,
        "options": connection.options,
        "secrets": dict.fromkeys(sorted(connection.secrets), "set"),
        "problem": problem(connection, home, writable=writable),
    }
