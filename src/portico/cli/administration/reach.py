"""`portico explain` and `portico who`: what a user reaches and why, and who reaches a place."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

from portico.cli.administration.accounts import Accounts, opened_pool, read_accounts
from portico.cli.console.output import JSON, Facts, print_json, show_list, show_one
from portico.cli.console.parser import Command, argument
from portico.model import timestamps
from portico.model.errors import for_administrator
from portico.model.paths import Path, Place
from portico.model.rights import shown
from portico.model.visible_text import visible

if TYPE_CHECKING:
    from portico.accounts.share_links import SharePolicy
    from portico.model.reach import Mount
    from portico.operations.reachability import Explanation, Reachability, Reached
    from portico.store.users import User


@asynccontextmanager
async def _opened(accounts: Accounts) -> "AsyncIterator[Reachability]":
    from portico.operations.reachability import Reachability

    async with opened_pool(accounts) as pool:
        yield Reachability(pool)


def _policy(accounts: Accounts) -> "SharePolicy":
    """The gateway's own."""
    from portico.server.composition import share_policy

    return share_policy(accounts.settings)


# explain


def explain(options: SimpleNamespace) -> None:
    async def action(accounts: Accounts) -> Facts:
        user = await accounts.users.get(options.user)
        policy = _policy(accounts)
        async with _opened(accounts) as reachability:
            found = await reachability.explain(user, Path.parse(options.path))
        facts = dict(_explained(found, policy, accounts.database.now()))
        facts["alsoFrom"] = await _others(accounts, found)
        return facts

    facts = read_accounts(options.home, action)
    if options.as_json:
        print_json(facts)
        return
    show_one({key: _shown(value) for key, value in facts.items() if value}, as_json=False)


def _shown(value: object) -> object:
    return (
        "; ".join(map(str, value)) if isinstance(value, list) and value and " " in "".join(map(str, value)) else value
    )


def _explained(found: "Explanation", policy: "SharePolicy", now: int) -> Facts:
    from portico.operations.reachability import may_share

    user, mount = found.user, found.mount
    rights = shown(mount.rights) if mount else []
    sharing = may_share(found, policy)
    return {
        "user": user.name,
        "path": str(found.path),
        "answer": _answer(found, now),
        "mount": mount and str(mount.path),
        "from": mount and _source(mount),
        "connection": mount and mount.place.connection,
        "folder": mount and str(mount.place.path),
        "place": found.place and str(found.place.path),
        "rights": rights,
        "sources": {str(right): f"{mount.path} ({_source(mount)})" for right in rights} if mount else {},
        "inner": [str(each.path) for each in found.inner if each.rights],
        "account": _account(user, now),
        "addresses": [" ".join(map(str, ranges)) for ranges in user.addresses],
        "sharing": sharing or _share_rules(policy),
        "storage": _storage(found),
    }


def _answer(found: "Explanation", now: int) -> str:
    user, mount, path = found.user, found.mount, found.path
    if not user.may_act(now):
        return f"{user.name} can't do anything now. {_account(user, now)}"
    if found.is_virtual:
        return f"{path} is a folder that only contains other folders: it can be listed, and nothing else."
    if mount is None and found.failure:
        return "The storage doesn't answer, so the mount that the path belongs to is unknown."
    if mount is None:
        return f"No mount of {user.name} leads to {path}: it doesn't exist for {user.name}."
    if not mount.rights:
        return f"The mount {mount.path} ({_source(mount)}) has no rights: it hides {path} from {user.name}."
    return f"{user.name} has {', '.join(shown(mount.rights))} on {path}, through the mount {mount.path} ({_source(mount)})."


def _source(mount: "Mount") -> str:
    return "own" if mount.group is None else f"group {mount.group}"


def _account(user: "User", now: int) -> str:
    if user.disabled:
        return "The account is disabled."
    if user.expires_at is None:
        return "The account is active."
    end = timestamps.from_datetime(user.expires_at)
    return (
        f"The account expired at {end}." if user.has_expired(now) else f"The account is active, and expires at {end}."
    )


def _storage(found: "Explanation") -> str:
    if found.failure:
        return f"It doesn't answer: {for_administrator(found.failure)}"
    if found.mount is None:
        return "Not checked: the path belongs to no mount."
    if found.entry is None:
        return "It answers: there is nothing at this path."
    return f"It answers: there is a {'folder' if found.entry.is_folder else 'file'} at this path."


def _share_rules(policy: "SharePolicy") -> str:
    rules = ["Links need a password."] if policy.require_password else []
    if policy.max_lifetime is not None:
        hours = round(policy.max_lifetime.total_seconds() / 3600, 1)
        rules.append(f"Links end after {hours:g} hours at most.")
    return " ".join(["Allowed.", *rules])


async def _others(accounts: Accounts, found: "Explanation") -> list[str]:
    """The owners of mounts at the same path that lose to the one in use."""
    if found.mount is None:
        return []
    named = await accounts.groups.of_user(found.user.id)
    owners = [found.user.name, *(f"@{name}" for name in named)]
    won = found.user.name if found.mount.group is None else f"@{found.mount.group}"
    at = [each.owner for each in await accounts.mounts.list() if each.rule.path == found.mount.path]
    return [owner for owner in owners if owner in at and owner != won]


# who


def who(options: SimpleNamespace) -> None:
    async def action(accounts: Accounts) -> list[Facts]:
        from portico.accounts.api_keys import ApiKeys
        from portico.accounts.share_links import ShareLinks

        connection, now = await accounts.connections.get(options.connection), accounts.database.now()
        policy = _policy(accounts)
        place = Place(connection.name, Path.parse(options.path))
        users, keys = await accounts.users.list(), await ApiKeys(accounts.database).usable()
        links = await ShareLinks(accounts.database, policy).open()
        async with _opened(accounts) as reachability:
            return [_reached(each, now) async for each in reachability.who(place, users, keys, links, policy, now)]

    rows: Sequence[Facts] = read_accounts(options.home, action)
    if not options.as_json:
        rows = [_row(row) for row in rows]
    show_list(rows, as_json=options.as_json, empty="No user, key or link reaches this place.")


def _reached(found: "Reached", now: int) -> Facts:
    owner, key, link, mount = found.owner, found.key, found.link, found.mount
    return {
        "user": owner.name,
        "key": key and {"id": key.id, "name": key.name},
        "link": link and {"id": link.id, "title": link.title},
        "path": str(found.path),
        "rights": shown(mount.rights),
        "group": mount.group,
        "onlyPart": None if found.rest.is_root else str(found.rest),
        "state": "disabled" if owner.disabled else "expired" if owner.has_expired(now) else "active",
        "addresses": [" ".join(map(str, ranges)) for ranges in owner.addresses] if link is None else [],
    }


def _row(facts: Facts) -> Facts:
    by = ""
    for word in ("key", "link"):
        if isinstance(named := facts[word], dict):
            by = f"{word} {named.get('name') or named['id']}"
    return {
        "user": facts["user"],
        "by": visible(by),
        **{name: facts[name] for name in ("path", "rights", "group", "onlyPart", "state")},
    }


COMMANDS = {
    "explain": Command(
        explain,
        "Explain what a Web User can do at a path: which mount it belongs to, where that comes from and where it "
        "leads, the rights, what else applies, and whether the storage answers.",
        (
            argument("user", "USER", help="The user's name."),
            argument("path", "PATH", help="A path in the user's tree."),
            JSON,
        ),
        "Example:\n  portico explain anna /projects/plan.pdf",
    ),
    "who": Command(
        who,
        "List the users, keys and links that reach a folder or a file of a connection, or something in it: where it is "
        "in their tree, and their rights.",
        (
            argument("connection", "CONNECTION", help="The connection's name."),
            argument("path", "PATH", help="A path in the connection, as in the folder of a mount."),
            JSON,
        ),
        "Example:\n  portico who cloud /projects/plan.pdf",
    ),
}
