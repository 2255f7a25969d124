"""Policies in a database."""

import asyncio
from datetime import UTC, datetime
from ipaddress import ip_network
from random import Random

import msgspec
import pytest
from sqlalchemy import insert, select

from portico.accounts.api_keys import ApiKeys, KeyScope
from portico.accounts.connections import Connections
from portico.accounts.passwords import Passwords
from portico.accounts.policy.plan import Noun, Plan, make_plan
from portico.accounts.policy.policies import Known, apply_plan, current_policy, ending
from portico.accounts.policy.policy import APPLY, ConnectionPolicy, GroupPolicy, Limits, Policy, UserPolicy
from portico.accounts.users import Invitations, Users
from portico.model.errors import Changed, NotPossible
from portico.model.paths import Path
from portico.model.reach import MountRule
from portico.store.database import Database
from portico.store.policy import PolicyRecords
from portico.store.tables import share_links

from .policies import generated, mounts

NOW = datetime(2026, 11, 19, tzinfo=UTC)
LIMITS = Limits(datetime(2040, 1, 1, tzinfo=UTC), (ip_network("10.0.0.0/8"),))


async def apply(database: Database, connections: Connections, known: Known, after: Policy) -> Plan:
    plan = make_plan(known.policy, after, NOW)
    await apply_plan(database, connections, known, plan, {})
    return plan


def contents(policy: Policy) -> tuple[object, ...]:
    return dict(policy.connections), list(policy.groups.items()), dict(policy.users)


def target(random: Random, current: Policy) -> Policy:
    made = generated(random)
    some = {"one": ConnectionPolicy("one", "local", {"folder": "/one"}, {}, APPLY)}
    some["two"] = ConnectionPolicy(
        "two", "s3", {"bucket": random.choice("ab")}, {"secret-access-key": random.choice("xy")}, APPLY
    )
    return Policy(
        {**current.connections, **some},
        {
            key: msgspec.structs.replace(
                each, origin=APPLY, limits=random.choice([Limits(), LIMITS]), members=each.members & made.users.keys()
            )
            for key, each in made.groups.items()
        },
        {
            key: msgspec.structs.replace(
                each, origin=APPLY, limits=random.choice([Limits(), LIMITS]), disabled=random.random() < 0.2
            )
            for key, each in made.users.items()
        },
    )


async def test_any_policy_becomes_any_other(database: Database, connections: Connections, users: Users) -> None:
    random = Random(27)
    for _ in range(20):
        known = await current_policy(database, connections)
        after = target(random, known.policy)
        await apply(database, connections, known, after)
        found = (await current_policy(database, connections)).policy
        assert contents(found) == contents(after)
        assert make_plan(found, after, NOW).changes == ()
        for key in after.users:
            user = await users.get(key)
            assert user.reach == after.reach(key), "what is compiled is what the difference is made of"
            limits = after.limits(key)
            assert (user.expires_at, frozenset(user.addresses)) == (limits.expires_at, limits.addresses)


async def test_new_users_are_invited(database: Database, connections: Connections, passwords: Passwords) -> None:
    known = await current_policy(database, connections)
    names = {name: UserPolicy(name, (), origin=APPLY) for name in ("anna", "bo")}
    disabled = UserPolicy("carl", (), disabled=True, origin=APPLY)
    after = Policy(known.policy.connections, {}, {**names, "carl": disabled})
    plan = make_plan(known.policy, after, NOW)
    hashed = await passwords.hash("correct horse")
    [invited] = await apply_plan(database, connections, known, plan, {"bo": hashed})
    assert invited.name == "anna"
    assert invited.token not in repr(invited)
    accepted = await Invitations(database, passwords).accept(invited.token, "four unrelated words")
    assert accepted.name == "anna"
    assert (await Users(database, passwords)._records.find("bo"))[1] == hashed


async def test_a_plan_that_is_out_of_date_is_refused(
    database: Database, connections: Connections, users: Users
) -> None:
    known = await current_policy(database, connections)
    after = Policy(known.policy.connections, {}, {"anna": UserPolicy("anna", (), origin=APPLY)})
    await users.add("bo", None)
    with pytest.raises(Changed, match="Run the command again"):
        await apply(database, connections, known, after)
    assert [user.name for user in await users.list()] == ["bo"]


async def test_a_volume_that_was_found_is_no_change(database: Database, connections: Connections, users: Users) -> None:
    known = await current_policy(database, connections)
    await connections.bind("local", (await connections.get("local")).revision, "abc")
    after = Policy(known.policy.connections, {}, {"anna": UserPolicy("anna", (), origin=APPLY)})
    await apply(database, connections, known, after)
    assert (await connections.get("local")).volume_id == "abc"
    assert PolicyRecords((), (), ()) != object()


async def test_of_two_at_once_one_wins(url: str, connections: Connections, users: Users) -> None:
    databases = [Database(url), Database(url)]
    known = await current_policy(databases[0], connections)

    async def attempt(database: Database, name: str) -> str | None:
        some = {f"{name}{number}": UserPolicy(f"{name}{number}", (), origin=APPLY) for number in range(10)}
        group = GroupPolicy("staff", mounts({f"/{name}": ("local/", "list")}), frozenset(some), origin=APPLY)
        try:
            await apply(database, connections, known, Policy(known.policy.connections, {"staff": group}, some))
        except Changed:
            return None
        return name

    won = [each for each in await asyncio.gather(attempt(databases[0], "one"), attempt(databases[1], "two")) if each]
    assert len(won) == 1
    assert {user.name[:3] for user in await users.list()} == set(won)
    for database in databases:
        await database.close()


async def test_a_change_that_fails_changes_nothing(database: Database, connections: Connections, users: Users) -> None:
    known = await current_policy(database, connections)
    rules = tuple(MountRule(Path((f"{number}",)), "local", "/", frozenset()) for number in range(201))
    after = Policy(
        {**known.policy.connections, "new": ConnectionPolicy("new", "local", {"folder": "/new"}, {}, APPLY)},
        {"g": GroupPolicy("g", (), frozenset({"anna"}))},
        {"anna": UserPolicy("anna", ()), "bo": UserPolicy("bo", rules)},
    )
    with pytest.raises(NotPossible, match="at most 200 mounts"):
        await apply(database, connections, known, after)
    assert contents((await current_policy(database, connections)).policy) == contents(known.policy)


async def test_what_ends_with_a_user_and_a_connection(
    database: Database, connections: Connections, users: Users
) -> None:
    anna, bo = await users.add("anna", None), await users.add("bo", None, mounts=[])
    await ApiKeys(database).add(anna, KeyScope("backup"))
    values = {"is_folder": True, "kind": "view", "title": "", "note": "", "types": "", "ask_name": False}
    values |= {"folder_per_sender": False, "downloads": 0, "uploads": 0, "bytes": 0, "created_at": 0}
    for number, (owner, path, ended) in enumerate([(anna, "/a", None), (bo, "/b", None), (anna, "/old", 1)]):
        own = {"id": f"{number}", "digest": b"%d" % number, "user_id": owner.id, "path": path, "ended_at": ended}
        await database.execute(insert(share_links).values(connection="local", **values, **own))
    known = await current_policy(database, connections)
    without_anna = Policy(known.policy.connections, {}, {"bo": known.policy.users["bo"]})
    assert await ending(database, make_plan(known.policy, without_anna, NOW)) == {
        (Noun.USER, "anna"): (["backup"], ["/a"])
    }
    nothing = Policy({}, {}, {"bo": known.policy.users["bo"]})
    assert await ending(database, make_plan(known.policy, nothing, NOW)) == {
        (Noun.USER, "anna"): (["backup"], ["/a"]),
        (Noun.CONNECTION, "local"): ([], ["/a", "/b"]),
    }
    assert await ending(database, make_plan(known.policy, known.policy, NOW)) == {}
    await apply(database, connections, known, nothing)
    assert not await database.fetch(select(share_links))
