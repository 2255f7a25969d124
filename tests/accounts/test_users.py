import asyncio

import pytest
from sqlalchemy import select

from portico.accounts.connections import Connections
from portico.accounts.passwords import Passwords
from portico.accounts.sessions import Sessions
from portico.accounts.users import Users
from portico.model.errors import AlreadyExists, InvalidPath, InvalidRequest, NotFound, NotSignedIn
from portico.model.rights import DEFAULT_RIGHTS, Right
from portico.store.database import Database
from portico.store.tables import users as table
from portico.store.users import User


async def test_a_user_has_a_folder_and_all_rights_by_default(users: Users, connections: Connections) -> None:
    alice = await users.add("Alice", "correct horse")
    assert (alice.name, str(alice.reach.mounts[0].place)) == ("Alice", "local/Alice")
    assert alice.rights == DEFAULT_RIGHTS
    assert not alice.disabled
    assert alice.created_at == alice.password_changed_at
    assert alice.created_at.utcoffset() is not None

    await connections.add("bucket", "s3", {}, {})
    bob = await users.add("bob", "correct horse", connection="bucket", root="team/b/", rights={Right.LIST})
    assert (str(bob.reach.mounts[0].place), bob.rights) == ("bucket/team/b", frozenset({Right.LIST}))
    assert await users.list() == [alice, bob]


async def test_names_are_the_same_whatever_their_case(users: Users, alice: User) -> None:
    assert await users.get("aLICE") == alice
    with pytest.raises(AlreadyExists):
        await users.add("ALICE", "correct horse")
    strasse = await users.add("Jörg.Straße@x-1_y", "correct horse")
    assert await users.get("JO\u0308RG.STRASSE@X-1_Y") == strasse
    assert strasse.name == "Jörg.Straße@x-1_y"


@pytest.mark.parametrize(
    "name", ["", ".hidden", "a b", "a/b", "a\\b", "a\0b", "..", "x" * 65, "x" * 100_000, "a\n", "\ud800", "\ufdfa" * 64]
)
async def test_odd_names_are_refused_and_never_found(users: Users, name: str) -> None:
    if name != "\ufdfa" * 64:
        with pytest.raises(InvalidRequest, match="choose another name"):
            await users.add(name, "correct horse")
    with pytest.raises(NotFound):
        await users.get(name)


async def test_mistakes_in_a_new_user_are_named(users: Users) -> None:
    with pytest.raises(InvalidRequest, match="password"):
        await users.add("bob", "short")
    with pytest.raises(InvalidPath):
        await users.add("bob", "correct horse", root="/a/../b")
    for unknown in ("nowhere", "no\0where", "", "\ud800"):
        with pytest.raises(NotFound, match="doesn't exist"):
            await users.add("bob", "correct horse", connection=unknown)
    assert await users.list() == []


async def test_two_of_one_name_at_once(users: Users) -> None:
    outcomes = await asyncio.gather(
        *(users.add(name, "correct horse") for name in ("Bob", "bob", "BOB")), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AlreadyExists", "AlreadyExists", "User"]
    assert len(await users.list()) == 1


async def test_change_touches_what_is_given(users: Users, alice: User) -> None:
    changed = await users.change("alice", root="/elsewhere", rights=[])
    assert (changed.id, str(changed.reach.mounts[0].place), changed.rights) == (
        alice.id,
        "local/elsewhere",
        frozenset(),
    )
    assert await users.get("alice") == changed
    assert await users.change("alice") == changed
    assert (await users.change("alice", disabled=True)).disabled
    assert not (await users.change("alice", disabled=False)).disabled
    with pytest.raises(NotFound, match="doesn't exist"):
        await users.change("alice", connection="nowhere")
    with pytest.raises(NotFound, match="doesn't exist"):
        await users.change("bob", root="/x")


@pytest.mark.parametrize("action", ["disable", "password", "delete"])
async def test_what_ends_a_user_ends_their_tokens(
    users: Users, alice: User, tokens: Sessions, other_tokens: Sessions, action: str
) -> None:
    bob = await users.add("bob", "correct horse")
    pair, bystander = await tokens.issue(alice), await tokens.issue(bob)
    await tokens.session(pair.access_token)
    match action:
        case "disable":
            await users.change("alice", disabled=True)
        case "password":
            await users.set_password("alice", "battery staple")
        case "delete":
            await users.delete("alice")
    tokens.forget()  # as after a second
    for worker in (tokens, other_tokens):
        with pytest.raises(NotSignedIn):
            await worker.session(pair.access_token)
        with pytest.raises(NotSignedIn):
            await worker.refresh(pair.refresh_token)
        assert (await worker.session(bystander.access_token)).user == bob
    if action == "disable":
        await users.change("alice", disabled=False)
        with pytest.raises(NotSignedIn):
            await tokens.session(pair.access_token)


async def test_new_rights_are_seen_when_the_cache_has_expired(users: Users, alice: User, tokens: Sessions) -> None:
    pair = await tokens.issue(alice)
    assert (await tokens.session(pair.access_token)).user.rights == DEFAULT_RIGHTS
    await users.change("alice", rights=[Right.LIST])
    tokens.forget()
    assert (await tokens.session(pair.access_token)).user.rights == {Right.LIST}


async def test_a_new_password_is_stored_as_a_hash(
    users: Users, alice: User, passwords: Passwords, database: Database
) -> None:
    await users.set_password("alice", "battery staple")
    async with database.connect() as reading:
        hashed = (await reading.execute(select(table.c.password_hash))).scalar_one()
    assert await passwords.verify(hashed, "battery staple")
    assert not await passwords.verify(hashed, "correct horse")
    assert (await users.get("alice")).password_changed_at >= alice.password_changed_at
    with pytest.raises(InvalidRequest):
        await users.set_password("alice", "short")
    with pytest.raises(NotFound):
        await users.set_password("bob", "battery staple")


async def test_a_number_never_comes_back(users: Users, alice: User, tokens: Sessions) -> None:
    await users.delete("alice")
    with pytest.raises(NotFound):
        await users.delete("alice")
    successor = await users.add("alice", "correct horse")
    assert successor.id != alice.id
    assert not await tokens.current_user(alice.id)
