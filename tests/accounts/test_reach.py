"""Mounts and groups, and the reach that is compiled of them."""

import asyncio
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import pytest
from sqlalchemy import select

from portico.accounts.connections import Connections
from portico.accounts.groups import Groups
from portico.accounts.mounts import Mounts, owner_of
from portico.accounts.users import Users
from portico.model.errors import AlreadyExists, InvalidPath, InvalidRequest, NotFound, NotPossible
from portico.model.paths import Path
from portico.model.reach import MountRule
from portico.model.rights import parse_rights
from portico.store import groups as group_rows
from portico.store import mounts as mount_rows
from portico.store import reach as compiling
from portico.store.database import Database
from portico.store.reach import change_reach
from portico.store.tables import groups as group_table
from portico.store.tables import members
from portico.store.tables import mounts as mount_table
from portico.store.tables import users as user_table
from portico.store.users import User

SOON = datetime(2040, 1, 1, tzinfo=UTC)


def rule(path: str, folder: str, rights: str = "list download", connection: str = "local") -> MountRule:
    return MountRule(Path.parse(path), connection, folder, parse_rights(rights))


@pytest.fixture
def groups(database: Database) -> Groups:
    return Groups(database)


@pytest.fixture
def mounts(database: Database) -> Mounts:
    return Mounts(database)


@pytest.fixture
async def bob(users: Users) -> User:
    return await users.add("bob", None, mounts=[])


async def tree(users: Users, name: str) -> dict[str, str]:
    found = (await users.get(name)).reach
    return {str(mount.path): f"{mount.place} {mount.group or 'own'}" for mount in found.mounts}


async def test_a_users_own_mounts(users: Users, mounts: Mounts, alice: User) -> None:
    assert await tree(users, "alice") == {"/": "local/Alice own"}
    await mounts.add(owner_of("ALICE"), rule("/team/", "/team"))
    await mounts.add(owner_of("alice"), rule("/mine", "/homes/{user}"))
    assert await tree(users, "alice") == {
        "/": "local/Alice own",
        "/mine": "local/homes/Alice own",
        "/team": "local/team own",
    }
    await mounts.change(owner_of("alice"), Path.parse("/team"), folder="/other", rights=frozenset())
    assert (await tree(users, "alice"))["/team"] == "local/other own"
    await mounts.change(owner_of("alice"), Path.parse("/team"), new_path=Path.parse("/moved"))
    await mounts.remove(owner_of("alice"), Path())
    assert await tree(users, "alice") == {"/mine": "local/homes/Alice own", "/moved": "local/other own"}
    assert [str(each.rule.path) for each in await mounts.list(owner_of("alice"))] == ["/mine", "/moved"]


async def test_a_groups_mounts_and_the_order(users: Users, groups: Groups, mounts: Mounts, bob: User) -> None:
    await groups.add("first")
    await groups.add("second")
    for name in ("first", "second"):
        await mounts.add(owner_of(f"@{name}"), rule("/shared", "/{group}/{user}"))
    await mounts.add(owner_of("@second"), rule("/only", "/only"))
    assert await tree(users, "bob") == {}
    await groups.join("second", ["bob"])
    await groups.join("FIRST", ["BOB", "bob"])
    assert await tree(users, "bob") == {"/only": "local/only second", "/shared": "local/first/bob first"}
    await groups.change("second", before="first")
    assert (await tree(users, "bob"))["/shared"] == "local/second/bob second"
    assert [group.name for group in await groups.list()] == ["second", "first"]
    await groups.change("second", last=True)
    assert (await tree(users, "bob"))["/shared"] == "local/first/bob first"
    await groups.change("first", new_name="Erste")
    assert (await tree(users, "bob"))["/shared"] == "local/Erste/bob Erste"
    await mounts.add(owner_of("bob"), rule("/shared", "/mine"))
    assert (await tree(users, "bob"))["/shared"] == "local/mine own"
    await mounts.remove(owner_of("bob"), Path.parse("/shared"))
    await groups.leave("erste", ["bob"])
    assert (await tree(users, "bob"))["/shared"] == "local/second/bob second"
    assert (await groups.get("second")).members == ("bob",)
    await groups.delete("second")
    assert await tree(users, "bob") == {}
    assert [each.owner for each in await mounts.list()] == ["@Erste"]


async def test_the_strictest_limits_apply(users: Users, groups: Groups, bob: User) -> None:
    inner, outer = ip_network("10.1.0.0/16"), ip_network("10.0.0.0/8")
    await groups.add("staff", expires_at=SOON, addresses=[outer])
    await groups.join("staff", ["bob"])
    found = await users.get("bob")
    assert (found.expires_at, found.addresses) == (SOON, ((outer,),))
    found = await users.change("bob", expires_at=SOON - timedelta(days=1), addresses=[inner])
    assert (found.expires_at, found.addresses) == (SOON - timedelta(days=1), ((inner,), (outer,)))
    assert found.admits("10.1.2.3")
    assert not found.admits("10.2.2.3")
    assert not found.admits("nonsense")
    await users.change("bob", expires_at=SOON + timedelta(days=1))
    await groups.change("staff", addresses=[])
    found = await users.get("bob")
    assert (found.expires_at, found.addresses) == (SOON, ((inner,),))
    [record] = await users.records()
    assert (record.expires_at, record.addresses) == (SOON + timedelta(days=1), (inner,))
    await users.change("bob", expires_at=None, addresses=[])
    await groups.change("staff", expires_at=None)
    found = await users.get("bob")
    assert (found.expires_at, found.addresses) == (None, ())
    assert found.admits("nonsense")


async def test_mistakes_are_named(users: Users, groups: Groups, mounts: Mounts, alice: User) -> None:
    await groups.add("staff")
    await groups.join("staff", ["alice"])
    anna, staff = owner_of("alice"), owner_of("@staff")
    await mounts.add(staff, rule("/x", "/"))
    with pytest.raises(AlreadyExists, match="@staff already has a mount at /x"):
        await mounts.add(staff, rule("/x", "/y"))
    await mounts.add(anna, rule("/z", "/"))
    with pytest.raises(AlreadyExists, match="alice already has a mount at /z"):
        await mounts.change(anna, Path(), new_path=Path.parse("/z"))
    await mounts.remove(anna, Path())
    with pytest.raises(NotFound, match="connection 'nowhere' doesn't exist"):
        await mounts.add(anna, rule("/n", "/", connection="nowhere"))
    for unknown in ("nobody", "@nobody", "no/name", "@"):
        with pytest.raises(NotFound, match="doesn't exist"):
            await mounts.add(owner_of(unknown), rule("/n", "/"))
        with pytest.raises(NotFound, match="doesn't exist"):
            await mounts.list(owner_of(unknown))
    with pytest.raises(NotFound, match="has no mount at /q"):
        await mounts.remove(anna, Path.parse("/q"))
    for folder, why in (("/{group}", "can't be replaced"), ("/{usr}", "can't be replaced"), ("/a/../b", "'..'")):
        with pytest.raises(InvalidPath, match=why):
            await mounts.add(anna, rule("/n", folder))
    with pytest.raises(InvalidRequest, match="1024 bytes"):
        await mounts.add(anna, rule("/n", "/" + "ü" * 600))
    with pytest.raises(InvalidRequest, match="1024 bytes"):
        await mounts.add(anna, rule("/" + "ü" * 600, "/"))
    with pytest.raises(AlreadyExists):
        await groups.add("STAFF")
    with pytest.raises(NotFound):
        await groups.join("staff", ["alice", "nobody"])
    await groups.leave("staff", ["alice", "alice"])
    with pytest.raises(NotPossible, match="'Alice' is not a member"):
        await groups.leave("staff", ["alice"])
    with pytest.raises(InvalidRequest, match="name"):
        await groups.add("a/b")
    for action in (groups.get("nobody"), groups.delete("nobody"), groups.change("nobody", last=True)):
        with pytest.raises(NotFound, match="doesn't exist"):
            await action
    with pytest.raises(NotPossible, match="has no mount at /; change the mounts with 'portico mount"):
        await users.change("alice", root="/elsewhere")


async def test_a_folder_that_cannot_be_made_is_refused_at_the_change(
    users: Users, groups: Groups, mounts: Mounts
) -> None:
    await users.add("portico", None, mounts=[])
    await groups.add("staff")
    await mounts.add(owner_of("@staff"), rule("/x", "/.{user}~x"))
    with pytest.raises(InvalidPath, match="reserved for the gateway"):
        await groups.join("staff", ["portico"])
    assert (await groups.get("staff")).members == ()


async def test_braces_are_written_twice(users: Users, mounts: Mounts, bob: User) -> None:
    await mounts.add(owner_of("bob"), rule("/x", "/{{a}}/{{{user}}}"))
    assert await tree(users, "bob") == {"/x": "local/{a}/{bob} own"}


async def test_numbers_are_bounded(
    users: Users, groups: Groups, mounts: Mounts, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_rows, "MAX_GROUPS", 2)
    monkeypatch.setattr(mount_rows, "MAX_MOUNTS", 2)
    monkeypatch.setattr(compiling, "MAX_TREE", 3)
    for name in ("a", "b"):
        await groups.add(name)
        for number in range(2):
            await mounts.add(owner_of(f"@{name}"), rule(f"/{name}{number}", "/"))
    with pytest.raises(NotPossible, match="at most 2 groups"):
        await groups.add("c")
    with pytest.raises(NotPossible, match="@a can have at most 2 mounts"):
        await mounts.add(owner_of("@a"), rule("/more", "/"))
    await groups.join("a", ["bob"])
    with pytest.raises(NotPossible, match="'bob' would have 4 mounts"):
        await groups.join("b", ["bob"])


async def test_a_connection_with_mounts_is_not_deleted(
    connections: Connections, users: Users, groups: Groups, mounts: Mounts, alice: User, bob: User
) -> None:
    await connections.add("bucket", "s3", {}, {})
    assert await connections.in_use() == {"local": alice.rights}
    await groups.add("staff")
    await mounts.add(owner_of("@staff"), rule("/x", "/", "list", "bucket"))
    assert await connections.in_use() == {"local": alice.rights}
    await groups.join("staff", ["bob"])
    assert await connections.in_use() == {"local": alice.rights, "bucket": parse_rights("list")}
    with pytest.raises(NotPossible, match="is used by @staff; remove"):
        await connections.delete("bucket")
    await mounts.add(owner_of("bob"), rule("/y", "/", "list", "bucket"))
    with pytest.raises(NotPossible, match="is used by bob, @staff; remove"):
        await connections.delete("bucket")
    await users.change("bob", disabled=True)
    assert await connections.in_use() == {"local": alice.rights}
    await users.delete("bob")
    await groups.delete("staff")
    await connections.delete("bucket")


async def test_changes_at_once_leave_no_stale_reach(
    database: Database, users: Users, groups: Groups, mounts: Mounts, alice: User, bob: User
) -> None:
    """Each change sees those before it, whatever the order: in the end, compiling everything again changes nothing."""
    names = [f"g{number}" for number in range(4)]
    for name in names:
        await groups.add(name)
        await mounts.add(owner_of(f"@{name}"), rule("/shared", f"/{name}"))

    async def turn(name: str) -> None:
        await groups.join(name, ["alice", "bob"])
        await mounts.change(owner_of(f"@{name}"), Path.parse("/shared"), folder=f"/{name}/new")
        await groups.change(name, last=True)
        await mounts.add(owner_of("bob"), rule(f"/{name}", "/"))

    await asyncio.gather(*map(turn, names))
    before = await database.fetch(select(user_table.c.id, user_table.c.reach).order_by(user_table.c.id))

    async def everybody(change: compiling.ReachChange) -> None:
        change.recompile_users([alice.id, bob.id])

    await change_reach(database, everybody)
    assert await database.fetch(select(user_table.c.id, user_table.c.reach).order_by(user_table.c.id)) == before
    first = (await groups.list())[0].name
    assert (await tree(users, "alice"))["/shared"] == f"local/{first}/new {first}"


async def test_two_changes_of_one_users_groups_at_once(
    users: Users, groups: Groups, mounts: Mounts, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a lock, neither would see the other's uncommitted rows, and the later one would overwrite the earlier."""
    names = ["a", "b"]
    for name in names:
        await groups.add(name)
        await mounts.add(owner_of(f"@{name}"), rule(f"/{name}", "/"))
    compiled = compiling.ReachChange.compile

    async def and_not_yet_committed(change: compiling.ReachChange) -> None:
        await compiled(change)
        await asyncio.sleep(0.1)

    monkeypatch.setattr(compiling.ReachChange, "compile", and_not_yet_committed)
    await asyncio.gather(*(groups.join(name, ["bob"]) for name in names))
    assert await tree(users, "bob") == {"/a": "local/ a", "/b": "local/ b"}
    await asyncio.gather(*(groups.leave(name, ["bob"]) for name in names))
    assert await tree(users, "bob") == {}


async def test_deleting_takes_all_rows_along(
    database: Database, users: Users, groups: Groups, mounts: Mounts, bob: User
) -> None:
    await groups.add("staff")
    await groups.join("staff", ["bob"])
    await mounts.add(owner_of("bob"), rule("/x", "/"))
    await mounts.add(owner_of("@staff"), rule("/x", "/"))
    await users.delete("bob")
    await groups.delete("staff")
    for table in (group_table, members, mount_table):
        assert await database.fetch(select(table)) == []


async def test_many_members_are_compiled_in_batches(
    users: Users, groups: Groups, mounts: Mounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "_AT_ONCE", 2)
    await groups.add("staff")
    names = [f"u{number}" for number in range(5)]
    for name in names:
        await users.add(name, None, mounts=[])
    await groups.join("staff", names)
    await mounts.add(owner_of("@staff"), rule("/x", "/{user}"))
    for name in names:
        assert await tree(users, name) == {"/x": f"local/{name} staff"}
