"""`portico connection …`: manage the storage services that hold the files."""

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, TypeVar

from portico.cli.administration.accounts import Accounts, audited, change, opened_provider, read_accounts, with_accounts
from portico.cli.administration.home import PASSWORD_FILE, SET_UP_MARK, command
from portico.cli.administration.home_setup import with_new_accounts
from portico.cli.console.exits import DONE, FAILED, UsageMistake, exit_code
from portico.cli.console.output import JSON, Facts, show_list, show_one, tell
from portico.cli.console.parser import Command, Group, argument, flag, option
from portico.cli.console.terminal import read_standard_input, something_is_piped, warn
from portico.model.errors import NotFound, NotPossible, PorticoError, for_administrator
from portico.model.rights import Right

if TYPE_CHECKING:
    from portico.accounts.connections import Connection

_FILES_OF_A_HOME = ("portico.db", "secret.key", SET_UP_MARK, PASSWORD_FILE)


def location(connection: "Connection") -> str:
    """Where the files are; for a link, also where it leads."""
    from portico.providers.contract.registry import KINDS

    if connection.kind == "local":
        folder = connection.options["folder"]
        return f"{folder} -> {os.path.realpath(folder)}" if os.path.islink(folder) else folder
    names = sorted(KINDS[connection.kind].required) if connection.kind in KINDS else []
    return " ".join([connection.kind, *(connection.options.get(name, "") for name in names)])


def problem(connection: "Connection", home: Path, *, writable: bool) -> str | None:
    """What is wrong with the folder of a local connection; None for other kinds."""
    if connection.kind != "local":
        return None
    from portico.providers.folders import volume_id
    from portico.providers.folders.volume_id import access_problem

    folder = connection.options["folder"]
    name = f"The folder {folder} of the connection {connection.name}"
    if wrong := access_problem(folder, writable=writable):
        missing = "" if os.path.lexists(folder) else " Create it, or correct the path."
        return f"{name} {wrong}.{missing}{_remedy(connection, home)}"
    words = command(home, "connection", "set", connection.name, "--option", f"folder={folder}")
    if wrong := volume_id.damage(folder):
        return f"{name} {wrong}. Restore that file, or remove it and run: {words}"
    if wrong := _volume_problem(connection):
        return f"{name} {wrong}. Mount the right one or, if this folder is the right one, run: {words}"
    if Path(home).resolve().is_relative_to(Path(folder).resolve()):
        return f"{name} contains the gateway's own home, with its keys and passwords; don't give any user a root there."
    if other := _other_home(folder, home):
        return f"{name} belongs to another Portico home, {other}.{_remedy(connection, home)}"
    return None


def _volume_problem(connection: "Connection") -> str | None:
    from portico.providers.folders import volume_id

    if connection.volume_id is None:
        return None
    try:
        folder = os.open(connection.options["folder"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return volume_id.problem(folder, connection.volume_id)
        finally:
            os.close(folder)
    except OSError as error:
        return f"has a volume id that can't be read ({error.strerror})"


def _remedy(connection: "Connection", home: Path) -> str:
    """How to use this home's own folder instead, which is usually wanted after a home was copied or moved."""
    own = home / "files"
    if connection.options["folder"] == str(own) or not own.is_dir():
        return ""
    words = command(home, "connection", "set", connection.name, "--option", f"folder={own}")
    return f" To use this home's own folder instead, run: {words}"


def _other_home(folder: str, home: Path) -> Path | None:
    """The home of another gateway that contains the folder."""
    from portico.settings.settings import PROPERTIES_FILE

    own, real = os.path.realpath(home), Path(os.path.realpath(folder))
    for parent in (real, *real.parents):
        if str(parent) == own:
            return None
        is_home = any(os.path.exists(parent / name) for name in _FILES_OF_A_HOME)
        if is_home and os.path.isfile(parent / PROPERTIES_FILE):
            return parent
    return None


Text = TypeVar("Text", str, str | None)


def add(options: SimpleNamespace) -> None:
    from portico.providers.contract.registry import check_options, missing_extra

    name, kind = options.name, options.kind
    values = _given(options)
    check_options(kind, values)
    plain, secret = _by_secrecy(values)

    async def action(accounts: Accounts) -> "Connection":
        async with audited(accounts.journal, "connection.add", name, values):
            check_volume_id(kind, values)
            return await bound(accounts, await accounts.connections.add(name, kind, plain, secret))

    added = with_new_accounts(options.home, action)
    print(f"Added the connection {name} of kind {kind}.")
    warn_of_problem(added, options.home)
    if install := missing_extra(kind):
        warn(f"this kind needs an extra; install it with: {install}")


def set_(options: SimpleNamespace) -> None:
    from portico.providers.contract.registry import check_options

    name, kind = options.name, options.kind
    values = _given(options)
    if not values and not kind:
        raise UsageMistake("There is nothing to change; add --option KEY=VALUE or --secret-stdin.")

    async def action(accounts: Accounts) -> "Connection":
        old = await accounts.connections.get(name)
        if kind not in ("", old.kind):
            raise NotPossible(
                f"A connection's kind can't be changed, and {name} is {old.kind}; add another connection for {kind}."
            )
        merged = {**old.options, **old.secrets, **values}
        check_options(old.kind, {key: value for key, value in merged.items() if value})
        plain, secret = _by_secrecy({key: value or None for key, value in values.items()})
        async with audited(accounts.journal, "connection.set", name, values):
            check_volume_id(old.kind, merged)
            changed = await accounts.connections.change(name, options=plain, secrets=secret)
            return await bound(accounts, changed)

    changed = with_accounts(options.home, action)
    print(f"Changed the connection {name}.")
    warn_of_problem(changed, options.home)


def list_(options: SimpleNamespace) -> None:
    async def action(accounts: Accounts) -> list[Facts]:
        in_use = await accounts.connections.in_use()
        found: list[Facts] = []
        for each in await accounts.connections.list():
            facts = dict(_facts(each, in_use, options.home))
            wrong = facts.pop("problem") or (await _refusal(accounts, each) if options.check else None)
            known = options.check or each.kind == "local"
            status = "problem" if wrong else "ok" if known else "not checked"
            found.append({**facts, "status": status, "problem": wrong})
        return found

    empty = "There are no connections yet; add one with 'portico connection add NAME --kind KIND'."
    show_list(read_accounts(options.home, action), as_json=options.as_json, empty=empty)


def show(options: SimpleNamespace) -> None:
    async def action(accounts: Accounts) -> Facts:
        connection = await accounts.connections.get(options.name)
        return _facts(connection, await accounts.connections.in_use(), options.home)

    show_one(read_accounts(options.home, action), as_json=options.as_json)


def test(options: SimpleNamespace) -> int:
    name = options.name
    errors = read_accounts(options.home, lambda accounts: _probe(accounts, name, as_json=options.as_json))
    if errors:
        print(f"The connection {name} doesn't work.", file=sys.stderr)
        codes = {exit_code(error) for error in errors}
        return codes.pop() if len(codes) == 1 else FAILED
    if not options.as_json:
        print(f"The connection {name} works.")
    return DONE


def delete(options: SimpleNamespace) -> None:
    name = options.name
    change(options.home, "connection.delete", name, lambda accounts: accounts.connections.delete(name))
    print(f"Deleted the connection {name}. Its files are still there.")


def check_volume_id(kind: str, values: Mapping[str, str]) -> None:
    """Refuse a folder whose volume id no connection can take."""
    from portico.providers.folders import volume_id

    if kind == "local" and (wrong := volume_id.damage(values["folder"])):
        raise NotPossible(f"The folder {values['folder']} {wrong}; remove that file, or choose another folder.")


async def bound(accounts: Accounts, connection: "Connection") -> "Connection":
    """The connection, bound to its folder as this machine sees it: another node may not have mounted it."""
    from portico.providers.folders import volume_id

    if connection.kind == "local":
        with suppress(volume_id.Damaged):  # since it was checked: the warning that follows says so
            if found := volume_id.read_or_make(connection.options["folder"]):
                await accounts.connections.bind(connection.name, connection.revision, found)
    return connection


async def _refusal(accounts: Accounts, connection: "Connection") -> str | None:
    """Why the storage does not even list a folder; None if it does."""
    try:
        async with opened_provider(accounts, connection) as (provider, root):
            with suppress(NotFound):  # a prefix that nobody has written to
                await provider.list_page(root, 1, None)
    except PorticoError as error:
        return for_administrator(error)
    return None


async def _probe(accounts: Accounts, name: str, *, as_json: bool) -> list[PorticoError]:
    from portico.providers.contract.registry import probe

    errors = []
    async with opened_provider(accounts, await accounts.connections.get(name)) as (provider, root):
        async for step in probe(provider, root):
            if step.error:
                errors.append(step.error)
            wrong = for_administrator(step.error) if step.error else None
            facts = {"step": step.name, "ok": wrong is None, "problem": wrong}
            tell(f"{step.name}: {wrong or 'ok'}", facts, as_json=as_json)
    return errors


def _given(options: SimpleNamespace) -> dict[str, str]:
    from portico.providers.contract.registry import PATH_OPTIONS, SECRET_OPTIONS

    values = _pairs(options.option, "--option", "Write --option KEY=VALUE.")
    for key in sorted(SECRET_OPTIONS & {key for key, value in values.items() if value}):
        warn(f"other users of this machine can see {key} in the command; --secret-stdin keeps it hidden.")
    if options.secret_stdin:
        lines = (line.strip() for line in read_standard_input().splitlines())
        piped = _pairs(filter(None, lines), "Standard input", "Each line of standard input must be KEY=VALUE.")
        if twice := sorted(values.keys() & piped.keys()):
            raise UsageMistake(f"{twice[0]} is given both with --option and on standard input; give it once.")
        values |= piped
    elif something_is_piped(wait=0):
        warn("standard input was not read; --secret-stdin reads secrets from it.")
    # Relative names start at the current folder.
    return {key: os.path.abspath(value) if value and key in PATH_OPTIONS else value for key, value in values.items()}


def _pairs(texts: Iterable[str], source: str, advice: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            # The text may be a secret, so the error does not quote it.
            raise UsageMistake(advice)
        if key.strip() in pairs:
            raise UsageMistake(f"{source} gives {key.strip()} twice.")
        pairs[key.strip()] = value
    return pairs


def _by_secrecy(values: Mapping[str, Text]) -> tuple[dict[str, Text], dict[str, Text]]:
    from portico.providers.contract.registry import SECRET_OPTIONS

    plain = {key: value for key, value in values.items() if key not in SECRET_OPTIONS}
    return plain, {key: value for key, value in values.items() if key in SECRET_OPTIONS}


def warn_of_problem(connection: "Connection", home: Path) -> None:
    if found := problem(connection, home, writable=True):
        warn(found)


def _facts(connection: "Connection", in_use: Mapping[str, frozenset[Right]], home: Path) -> Facts:
    writable = Right.UPLOAD in in_use.get(connection.name, ())
    return {
        "name": connection.name,
        "kind": connection.kind,
        "options": connection.options,
        "secrets": dict.fromkeys(sorted(connection.secrets), "set"),
        "problem": problem(connection, home, writable=writable),
    }


_NAME_ARGUMENT = argument("name", "NAME", help="The connection's name.")
_KIND_OPTION = option(
    "--kind",
    metavar="KIND",
    help="local, s3, azure-blob, azure-files or gcs.",
    missing="--kind is missing; use local, s3, azure-blob, azure-files or gcs",
)
_SAME_KIND_OPTION = option(
    "--kind", metavar="KIND", default="", hidden=True, help="Can't be changed; add another connection instead."
)

_VALUE_OPTIONS = (
    option(
        "--option",
        metavar="KEY=VALUE",
        repeatable=True,
        default=(),
        help="Set an option of this kind. Can be repeated.",
    ),
    flag("--secret-stdin", help="Read secrets from standard input, one KEY=VALUE per line."),
)


COMMANDS = {
    "connection": Group(
        "Manage connections to the storage services that hold the files.",
        {
            "add": Command(
                add,
                "Add a connection.\n\nCheck it afterwards with 'portico connection test NAME'.",
                (_NAME_ARGUMENT, _KIND_OPTION, *_VALUE_OPTIONS),
                "Examples:\n"
                "  portico connection add archive --kind local --option folder=/srv/archive\n"
                "  portico connection add cloud --kind s3 --option bucket=files --secret-stdin < secrets.txt",
            ),
            "set": Command(
                set_,
                "Change a connection's options.\n\nKEY= removes an option. A running gateway "
                "applies the change at once.",
                (_NAME_ARGUMENT, _SAME_KIND_OPTION, *_VALUE_OPTIONS),
                "Example:\n  portico connection set cloud --option region=eu-central-1",
            ),
            "list": Command(
                list_,
                "List all connections and any problems with local folders. Secrets are not shown.",
                (flag("--check", help="Also check every storage service by listing a folder."), JSON),
            ),
            "show": Command(show, "Show one connection, with its secrets hidden.", (_NAME_ARGUMENT, JSON)),
            "test": Command(
                test,
                "Test a connection: list, write, read and delete a probe file, and report what fails.",
                (_NAME_ARGUMENT, JSON),
            ),
            "delete": Command(
                delete, "Delete a connection no Web User uses. Its files are not deleted.", (_NAME_ARGUMENT,)
            ),
        },
        "Example:\n  portico connection add archive --kind local --option folder=/srv/archive",
    )
}
