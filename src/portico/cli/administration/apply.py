"""`portico apply FILE`: make connections, groups, users and mounts match a policy file."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from portico.cli.administration.accounts import Accounts, audited, read_accounts
from portico.cli.administration.connections import bound, check_volume_id, warn_of_problem
from portico.cli.administration.existing_folders import EXISTING_FOLDER, check_places
from portico.cli.administration.home_setup import with_new_accounts
from portico.cli.administration.users import explain_link, gateway_address
from portico.cli.console.exits import UsageMistake
from portico.cli.console.output import JSON, Facts, print_json, tell
from portico.cli.console.parser import Command, argument, flag
from portico.cli.console.terminal import confirm, standard_input, standard_output, warn
from portico.model.errors import NotPossible
from portico.model.rights import shown
from portico.model.visible_text import visible
from portico.runtime import clock

if TYPE_CHECKING:
    from portico.accounts.policy.access import AccessChange, LimitChange
    from portico.accounts.policy.file import PolicyFile, StorageKinds
    from portico.accounts.policy.plan import Plan
    from portico.accounts.policy.policies import Known, NewInvitation

_WORDS = {"add": "+", "change": "~", "remove": "-"}
_AUDITED = {"add": "add", "change": "set", "remove": "delete"}
_STANDARD_INPUT = "-"


def apply(options: SimpleNamespace) -> None:
    from portico.accounts.policy.file import read_policy

    folder = Path.cwd() if options.file == _STANDARD_INPUT else Path(options.file).absolute().parent
    name = "standard input" if options.file == _STANDARD_INPUT else options.file
    file = read_policy(_text(options.file), name, _storage())
    if options.prune and file.is_empty:
        raise UsageMistake(
            f"{name} has no connections, groups or users, so --prune would remove everything that apply has created."
        )

    async def action(accounts: Accounts) -> None:
        await _apply(accounts, file, folder, options)

    if options.dry_run:
        read_accounts(options.home, action)
    else:
        with_new_accounts(options.home, action)


def _text(name: str) -> str:
    from portico.accounts.policy.document import MAX_BYTES

    if name == _STANDARD_INPUT:
        data = standard_input().read(MAX_BYTES + 1)
    else:
        with open(name, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageMistake(f"{name} is larger than {MAX_BYTES // 1024 // 1024} MiB; split it.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageMistake(f"{name} is not valid UTF-8; encode it as UTF-8.") from None


def _storage() -> "StorageKinds":
    from portico.accounts.policy.file import StorageKinds
    from portico.providers.contract.registry import KINDS, PATH_OPTIONS, PLACE_OPTIONS, SECRET_OPTIONS, check_options

    return StorageKinds(KINDS, SECRET_OPTIONS, PATH_OPTIONS, PLACE_OPTIONS, check_options)


async def _apply(accounts: Accounts, file: "PolicyFile", folder: Path, options: SimpleNamespace) -> None:
    from portico.accounts.policy.assertions import check_assertions
    from portico.accounts.policy.plan import desired, make_plan, passwords_of
    from portico.accounts.policy.policies import current_policy
    from portico.accounts.policy.references import References

    now = clock.to_datetime(accounts.database.now())
    resolve = References(folder).resolve
    known = await current_policy(accounts.database, accounts.connections)
    normal = accounts.connections.normal
    after = desired(known.policy, file, _storage(), resolve, prune=options.prune, normal=normal)
    check_assertions(file.assertions, after, file.name, now)
    plan = make_plan(known.policy, after, now, _storage().places)
    passwords = passwords_of(plan, file, resolve)
    for name in _changed_connections(plan):
        check_volume_id(after.connections[name].kind, after.connections[name].options)
    await _show(accounts, plan, options)
    if not options.existing_folder:
        await _check_folders(accounts, plan, dry_run=options.dry_run)
    if not plan.changes or options.dry_run:
        return
    standard_output().flush()
    with _interruptible():
        confirm("Apply these changes?", yes=options.yes)
    invitations = await _make(accounts, known, plan, passwords)
    for name in _changed_connections(plan):
        warn_of_problem(await bound(accounts, await accounts.connections.get(name)), options.home)
        _warn_of_missing_extra(after.connections[name].kind)
    if not options.as_json:
        print("\nApplied.")
    await _show_invitations(accounts, invitations, options)


async def _check_folders(accounts: Accounts, plan: "Plan", *, dry_run: bool) -> None:
    """`NotPossible` if a user gets a folder named after them that has files already."""
    from portico.accounts.connections import Connection
    from portico.accounts.policy.plan import new_personal_places

    connections = {
        name: Connection(name, each.kind, dict(each.options), dict(each.secrets), 0)
        for name, each in plan.after.connections.items()
    }
    try:
        await check_places(accounts, new_personal_places(plan), connections)
    except NotPossible as error:
        if not dry_run:
            raise
        warn(error.detail)


async def _make(
    accounts: Accounts, known: "Known", plan: "Plan", passwords: Mapping[str, str]
) -> "list[NewInvitation]":
    from portico.accounts.passwords import Passwords
    from portico.accounts.policy.policies import apply_plan

    with closing(Passwords()) as hasher:
        hashes = {key: await hasher.hash(password) for key, password in passwords.items()}
    async with AsyncExitStack() as stack:
        for each in reversed(plan.changes):  # what is entered last ends first
            action = f"{each.noun}.{_AUDITED[each.action]}"
            await stack.enter_async_context(audited(accounts.journal, action, each.name, each.fields))
        return await apply_plan(accounts.database, accounts.connections, known, plan, hashes)


def _changed_connections(plan: "Plan") -> list[str]:
    return [each.key for each in plan.changes if each.noun == "connection" and each.action != "remove"]


def _warn_of_missing_extra(kind: str) -> None:
    from portico.providers.contract.registry import missing_extra

    if install := missing_extra(kind):
        warn(f"the kind {kind} needs an extra; install it with: {install}")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a prompt: the event loop would only see it after the answer."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


async def _show(accounts: Accounts, plan: "Plan", options: SimpleNamespace) -> None:
    from portico.accounts.policy.policies import ending

    dry = {"dryRun": True} if options.dry_run else {}
    if not plan.changes and not options.as_json:
        print("Nothing to do.")
    ends = await ending(accounts.database, plan)
    noun = ""
    for each in plan.changes:
        details = [*each.details, *_endings(*ends.get((each.noun, each.key), ((), ())))]
        if options.as_json:
            print_json({"action": each.action, "type": each.noun, "name": each.name, "details": details, **dry})
            continue
        if each.noun != noun:
            print(f"{'' if not noun else chr(10)}{each.noun.capitalize()}s")
        noun = each.noun
        print(visible(f"  {_WORDS[each.action]} {each.name}{': ' if details else ''}{'; '.join(details)}"))
    if plan.changes and not options.as_json:
        print("\nAccess")
        if not plan.access:
            print("  No changes.")
    for change in plan.access:
        tell(f"  {change}", {"action": "access", **_access_facts(change), **dry}, as_json=options.as_json)


def _endings(keys: "list[str] | tuple[str, ...]", links: "list[str] | tuple[str, ...]") -> Iterator[str]:
    for words, names in (("API key", keys), ("share link", links)):
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            yield f"ends {len(names)} {words}{'s' if len(names) > 1 else ''} ({', '.join(names[:5])}{more})"


def _access_facts(change: "AccessChange | LimitChange") -> Facts:
    from portico.accounts.policy.access import AccessChange

    if not isinstance(change, AccessChange):
        facts = {"change": "limit", "users": change.users, "limit": change.limit, "before": change.before}
        return {**facts, "text": str(change)}
    kind, rights, everything, before, after = change.delta
    return {
        "change": kind,
        "users": change.users,
        "rights": shown(rights),
        "everything": everything,
        "paths": [{"path": str(path), "except": list(map(str, exceptions))} for path, exceptions in change.parts],
        "before": before or None,
        "after": after or None,
        "text": str(change),
    }


async def _show_invitations(accounts: Accounts, invitations: "list[NewInvitation]", options: SimpleNamespace) -> None:
    base = (await gateway_address(accounts)).rstrip("/") if invitations else ""
    if invitations and not options.as_json:
        print("\nLinks to set a password, each valid once within 7 days:")
    width = max((len(each.name) for each in invitations), default=0)
    for each in invitations:
        link = f"{base}/invite#{each.token}"
        facts = {"action": "invite", "name": each.name, "invitation": link, "invitationExpiresAt": each.expires_at}
        tell(f"  {each.name.ljust(width)}  {link}", facts, as_json=options.as_json)
    if invitations and not options.as_json:
        explain_link(options.home, f"{base}/invite#")


COMMANDS = {
    "apply": Command(
        apply,
        "Make connections, groups, users and mounts match a YAML file.\n\nThe plan is shown first, with the "
        "difference in access. It is applied all at once, or not at all. Anything that the file doesn't mention stays.",
        (
            argument("file", "FILE", help="The file; - reads standard input."),
            flag("--yes", help="Don't ask for confirmation."),
            flag("--dry-run", help="Show what would be done, without doing it."),
            flag("--prune", help="Also remove objects that an earlier apply created and the file no longer has."),
            EXISTING_FOLDER,
            JSON,
        ),
        "Examples:\n  portico export > company.yaml\n  portico apply --dry-run company.yaml\n  portico apply company.yaml",
    )
}
