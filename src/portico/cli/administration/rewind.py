"""`portico rewind`: undo what users, keys, links or sessions did, and leave everybody else's work alone."""

import asyncio
import shlex
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import msgspec

from portico.cli.administration import home as homes
from portico.cli.administration.accounts import Accounts, audited, open_journal, opened_pool, with_accounts
from portico.cli.console.exits import UsageMistake
from portico.cli.console.output import JSON, Facts, print_json
from portico.cli.console.parser import Argument, Command, flag, option
from portico.cli.console.terminal import at_terminal, confirm, notice
from portico.cli.console.times import check_order, moment
from portico.model import timestamps
from portico.model.errors import NotFound
from portico.model.paths import Path
from portico.model.visible_text import visible
from portico.runtime import clock

if TYPE_CHECKING:
    from portico.operations.rewind.plan import LeftAlone, Plan
    from portico.operations.rewind.rewinds import Rewinds
    from portico.store.history import ActorFilter

_ACTORS: Final = ("user", "key", "link", "session")
_SHOWN: Final = 20
_WHY: Final = {
    "conflict": "{by} has changed it since",
    "not-kept": "the earlier version was not kept",
    "not-known": "how much of this change was done is unknown",
    "merged": "a folder was merged into another one",
    "outside": "it is not only in the folder given with --below",
    "changed": "another program has changed it since",
    "failed": "{by}",
}
"""Why something is left alone, by the word in the report."""
_DONE: Final = {
    "restore": "bring back",
    "remove": "remove",
    "tidy": "remove if empty",
    "move": "move back",
    "make": "make again",
    "show": "return to the trash",
}


def rewind(options: SimpleNamespace) -> int:
    if options.resume:
        return with_accounts(options.home, lambda accounts: _resume(accounts, options.resume, options))
    if options.cancel:
        return with_accounts(options.home, lambda accounts: _cancel(accounts, options.cancel))
    given = [name for name in _ACTORS if getattr(options, name)]
    if not given:
        raise UsageMistake("Say whose changes to undo, with --user, --key, --link or --session.")
    if options.with_links and not options.user:
        raise UsageMistake("--with-links needs --user: it is about the guests of that user's links.")
    if options.since is None and given != ["session"]:
        raise UsageMistake("--since is missing: say when the first change was made, such as 2h or 2027-01-31T14:00Z.")
    _check_times(options)
    if options.freeze and not (options.yes or options.dry_run or at_terminal()):
        raise UsageMistake("Standard input is not a terminal: add --yes to freeze and rewind without a question.")
    return with_accounts(options.home, lambda accounts: _rewind(accounts, options))


def _check_times(options: SimpleNamespace) -> None:
    now = clock.now()
    if (options.since or 0) > now:
        raise UsageMistake(f"--since is in the future: times are in UTC, and it is {_utc(now)} now.")
    check_order(options.since, options.until)


def _utc(at: int) -> str:
    return timestamps.from_epoch(at)[:16] + "Z"


async def _rewind(accounts: Accounts, options: SimpleNamespace) -> int:
    from portico.operations.rewind.rewinds import RewindRequest

    actor = _actor(options)
    await _require_known(accounts, actor)
    within = await _within(accounts, options)
    if options.freeze and not options.dry_run:
        await _freeze(accounts, actor)
    request = RewindRequest(actor, options.since or 0, options.until, within, f"os:{homes.my_name()}")
    async with _opened(accounts) as rewinds:
        plan = await rewinds.plan(request)
        _show_plan(plan, options)
        if options.dry_run or not plan.steps:
            return 0
        confirm("Undo these changes?", yes=options.yes)
        rewind_id = await rewinds.begin(request, plan)
        notice(f"Started the rewind {rewind_id}.")
        return await _run(rewinds, rewind_id, options)


def _actor(options: SimpleNamespace) -> "ActorFilter":
    from portico.store.history import ActorFilter

    first, *others = (
        ActorFilter(**{kind: name}, with_links=kind == "user" and options.with_links)
        for kind in _ACTORS
        for name in dict.fromkeys(getattr(options, kind))
    )
    return msgspec.structs.replace(first, also=tuple(others))


async def _require_known(accounts: Accounts, actor: "ActorFilter") -> None:
    """Otherwise a typing mistake looks as if there was nothing to undo."""
    from portico.accounts.api_keys import ApiKeys
    from portico.store.history import has_lines

    for one in actor.each():
        [(kind, name)] = one.given().items()
        if await has_lines(accounts.database, one):
            continue
        if one.user:
            await accounts.users.get(one.user)
            continue
        keys = [key for _, key, _ in await ApiKeys(accounts.database).usable()] if one.key else []
        if name in {key.id for key in keys}:
            continue
        named = [key.id for key in keys if key.name == name]
        if len(named) == 1:
            raise NotFound(visible(f"'{name}' is the key's name, but its id is needed: --key {named[0]}"))
        hint = "list the ids with 'portico key list'" if one.key else "find it with 'portico audit list'"
        raise NotFound(visible(f"The journal has no line of a {kind} '{name}'; {hint}."))


async def _resume(accounts: Accounts, rewind_id: str, options: SimpleNamespace) -> int:
    async with _opened(accounts) as rewinds:
        await rewinds.get(rewind_id)
        return await _run(rewinds, rewind_id, options)


async def _cancel(accounts: Accounts, rewind_id: str) -> int:
    async with _opened(accounts) as rewinds:
        await rewinds.cancel(rewind_id)
    print("The rewind stops after its current steps. What it has undone stays undone.")
    return 0


@asynccontextmanager
async def _opened(accounts: Accounts) -> "AsyncIterator[Rewinds]":
    from portico.accounts.share_links import ShareLinks
    from portico.operations.rewind.rewinds import Rewinds
    from portico.server.composition import share_policy
    from portico.store.leases import Leases
    from portico.store.trash import TrashRecords

    settings, database = accounts.settings, accounts.database
    trash = TrashRecords(database)
    options = {"trash": trash, "trash_retention": settings.trash_retention, "trash_hold": settings.trash_hold}
    journal = open_journal(settings, database, accounts.signer, retries=True)
    try:
        async with opened_pool(accounts, **options) as pool:
            links = ShareLinks(database, share_policy(settings))
            yield Rewinds(database, journal, pool, trash, links, Leases(database, settings.node))
    finally:
        await journal.close()


async def _freeze(accounts: Accounts, actor: "ActorFilter") -> None:
    from portico.accounts.api_keys import ApiKeys
    from portico.accounts.sessions import Sessions
    from portico.accounts.share_links import ShareLinks
    from portico.operations.rewind.freezing import ACTIONS, Freezing
    from portico.server.composition import share_policy

    database, settings = accounts.database, accounts.settings
    sessions = Sessions(database, token_lifetime=settings.token_lifetime, refresh_lifetime=settings.refresh_lifetime)
    links = ShareLinks(database, share_policy(settings))
    freezing = Freezing(database, accounts.users, ApiKeys(database), links, sessions)
    for one, owner in [(one, await freezing.owner(one)) for one in actor.each()]:
        [(kind, name)] = one.given().items()
        async with audited(accounts.journal, ACTIONS[kind], owner.name) as line:
            if kind in ("key", "link"):
                setattr(line, kind, name)
            await freezing.freeze(one, owner)
        done = f"disabled {owner.name}" if one.user else f"ended the {kind} {name} of {owner.name}"
        notice(f"Frozen: {done}.")
    await asyncio.sleep(_SETTLED_SECONDS)


_SETTLED_SECONDS: Final = 2.0
"""After which no process lets a frozen actor begin a change, and the last changes have their rows."""


_POLL_SECONDS: Final = 1.0


async def _within(accounts: Accounts, options: SimpleNamespace) -> tuple[str, ...]:
    from portico.drive.connection_pool import prefix_of

    if not options.connection:
        if options.below:
            raise UsageMistake("--below needs --connection: the path counts from the top of a connection.")
        return ()
    connection = await accounts.connections.get(options.connection)
    if options.below and options.below.startswith(f"{connection.name}:"):
        raise UsageMistake(f"--below takes a path without the connection: leave out '{connection.name}:'.")
    return (connection.name, *Path.parse(options.below or "/").under(prefix_of(connection)).segments)


async def _run(rewinds: "Rewinds", rewind_id: str, options: SimpleNamespace) -> int:
    def progress(done: int, steps: int) -> None:
        notice(f"{done} of {steps} steps are done.")

    try:
        while not await rewinds.run(rewind_id, progress):  # a gateway carries it out
            found = await rewinds.get(rewind_id)
            progress(found.done, found.steps)
            await asyncio.sleep(_POLL_SECONDS)
    except asyncio.CancelledError:
        await rewinds.cancel(rewind_id)
        await rewinds.run(rewind_id)
        notice(f"To undo what is left, run the same command again. To go back: portico rewind --session {rewind_id}")
        raise
    found = await rewinds.get(rewind_id)
    if options.as_json:
        facts = {"id": found.id, "state": found.state, "steps": found.steps, "done": found.done}
        print_json({**facts, "left_alone": [_left_alone(each) for each in found.left_alone]})
    else:
        _show_left_alone([each for each in found.left_alone if each.why in ("changed", "failed")])
        print("Done." if found.state == "done" else f"The rewind was {found.state}.", end=" ")
        print(f"To undo it: portico rewind --session {found.id}")
    return int(any(each.why == "failed" for each in found.left_alone))


def _show_plan(plan: "Plan", options: SimpleNamespace) -> None:
    if options.as_json:
        if options.dry_run:
            steps = [{"action": step.action, "location": _place(step.location)} for step in plan.steps]
            left_alone = [_left_alone(each) for each in plan.left_alone]
            related = [one.given() for one in plan.related]
            print_json({"dry_run": True, "steps": steps, "left_alone": left_alone, "related": related})
        return
    counts = Counter(step.action for step in plan.steps)
    todo = [f"{counts[action]} to {words}" for action, words in _DONE.items() if counts[action]]
    if plan.undone and not todo:
        print(f"{_changes(plan.undone)} left nothing to undo.")
    else:
        print(f"{_changes(plan.undone)} can be undone" + (f": {', '.join(todo)}." if todo else "."))
    if not plan.undone and not plan.left_alone:
        notice(_nothing_found(options))
    _show_left_alone(plan.left_alone)
    if plan.related:
        names = _named(plan.related)
        notice(visible(f"{names[0].upper()}{names[1:]} may belong to the same actor. To undo those changes, too:"))
        notice(visible(f"  {_command(plan, options)}"))
    if options.dry_run and plan.steps:
        notice("Nothing was changed. To list each step, add --json.")


def _nothing_found(options: SimpleNamespace) -> str:
    actors = _actor(options).each()
    since = f" since {_utc(options.since)}" if options.since else ""
    until = f" until {_utc(options.until)}" if options.until else ""
    where = f" in {options.connection}:{options.below or ''}" if options.connection else ""
    return visible(f"The journal has no changes of files by {_named(actors)}{where}{since}{until}.")


def _named(actors: "Sequence[ActorFilter]") -> str:
    names = [f"the {kind} {name}" for one in actors for kind, name in one.given().items()]
    return " and ".join([", ".join(names[:-1])] * (len(names) > 1) + names[-1:])


def _command(plan: "Plan", options: SimpleNamespace) -> str:
    """As it was, with the related links and keys."""
    words = ["portico", "rewind", *(["--with-links"] if options.with_links else [])]
    for one in (*_actor(options).each(), *plan.related):
        words += [word for kind, name in one.given().items() for word in (f"--{kind}", name)]
    for name in ("since", "until"):
        if getattr(options, name) is not None:
            words += [f"--{name}", timestamps.from_epoch(getattr(options, name))]
    for name in ("connection", "below"):
        if getattr(options, name):
            words += [f"--{name}", getattr(options, name)]
    return shlex.join([*words, *(["--freeze"] if options.freeze else [])])


def _changes(count: int) -> str:
    return f"{count} change{'' if count == 1 else 's'}"


def _show_left_alone(left_alone: "Sequence[LeftAlone]") -> None:
    if left_alone:
        print(f"{_changes(len(left_alone))} {'is' if len(left_alone) == 1 else 'are'} left alone:")
    for each in left_alone[:_SHOWN]:
        print(visible(f"  {_place(each.location)}: {_WHY[each.why].format(by=each.by)}"))
    if len(left_alone) > _SHOWN:
        print(f"  … and {len(left_alone) - _SHOWN} more; --json lists all of them.")


def _left_alone(each: "LeftAlone") -> Facts:
    at = timestamps.from_epoch(each.at) if each.at else None
    return {"place": _place(each.location), "why": each.why, "action": each.action, "at": at, "by": each.by or None}


def _place(location: tuple[str, ...]) -> str:
    return f"{location[0]}:/{'/'.join(location[1:])}"


def _actor_option(name: str, metavar: str, text: str) -> Argument:
    return option(name, metavar=metavar, default=[], repeatable=True, help=text)


COMMANDS = {
    "rewind": Command(
        rewind,
        "Undo what users, keys, links or sessions did. Replaced and deleted files are brought back, and added ones go to "
        "the trash. What others have changed since is left alone and listed.",
        (
            _actor_option("--user", "NAME", "Undo what this user did, also by keys; not what guests of links did."),
            flag("--with-links", help="With --user: also undo what guests of the user's links did."),
            _actor_option("--key", "ID", "Undo what was done with this API key."),
            _actor_option("--link", "ID", "Undo what guests of this share link did."),
            _actor_option("--session", "ID", "Undo what was done in this session, or by the rewind with this id."),
            option(
                "--since",
                metavar="TIME",
                convert=moment("--since"),
                help="Undo only what was done since: 2h ago, or a time in UTC.",
            ),
            option(
                "--until", metavar="TIME", convert=moment("--until"), help="Undo only what was done before this time."
            ),
            option("--connection", metavar="NAME", help="Undo only what was done in this connection."),
            option(
                "--below",
                metavar="PATH",
                help="Undo only what was done in this folder; the path begins at the top of the connection.",
            ),
            flag("--freeze", help="First disable each user, and end each key, link and session."),
            flag("--dry-run", help="Only show what would be done."),
            flag("--yes", help="Don't ask for confirmation."),
            option("--resume", metavar="ID", help="Resume a rewind that was interrupted."),
            option("--cancel", metavar="ID", help="End a running rewind."),
            JSON,
        ),
        "Example:\n  portico rewind --key 1b5bfb4df4f6405c --since 2h --freeze",
    )
}
