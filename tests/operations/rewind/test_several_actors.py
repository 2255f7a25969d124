"""A thief with several credentials of one user is rewound at once. `k` has a key of ann, `l` a link that was made with it."""

from typing import Any

import pytest

from portico.operations.rewind.plan import Plan
from portico.operations.rewind.rewinds import RewindRequest
from portico.store.history import ActorFilter

from ...conformance.rewind.worlds import Act, World
from .test_rewinds import FILES, B, done, make_world, world

__all__ = ["make_world", "world"]

KEY, LINK = ActorFilter(key="k1"), ActorFilter(link="l1")


@pytest.fixture
async def thief(world: World) -> World:
    """Both have written over the same files in turn, and `b` has written over one of them since."""
    world.credentials = {
        "k": {"user": "ann", "key": "k1", "key_name": "laptop"},
        "l": {"user": "ann", "link": "l1", "guest": "Ann"},
        "other": {"user": "ann", "link": "l2"},
    }
    await done(world, *FILES)
    await world.note("k", "share.add", link="l1")
    await world.note("ann", "share.add", link="l2")
    for number in range(2):
        for actor in "kl":
            for path in ("/d/f", "/d/g", "/f"):
                await done(world, Act(actor, "upload", path, content=f"{actor}{number}".encode()))
    await done(world, B("upload", "/f", content=b"b"), Act("other", "upload", "/own", content=b"own"))
    return world


async def planned(world: World, actor: ActorFilter) -> Plan:
    await world.settled()
    return await world.rewinds.plan(RewindRequest(actor, 0))


EXPECTED = {"/d": None, "/d/f": b"d/f", "/d/g": b"d/g", "/e": None, "/e/h": b"e/h", "/f": b"b", "/own": b"own"}
TOGETHER: dict[str, dict[str, Any]] = {
    "both": {"key": "k1", "also": (LINK,)},
    "the user": {"user": "Ann", "with_links": True},
}


@pytest.mark.parametrize("others", TOGETHER)
@pytest.mark.parametrize("tried", ["", "key", "link"])
async def test_what_two_did_in_turn_is_undone_together(thief: World, others: str, tried: str) -> None:
    """Also after one of them was rewound, with conflicts."""
    if tried:
        alone: dict[str, Any] = {"key": {"key": "k1"}, "link": {"link": "l1"}}
        rewind = await thief.rewind(**alone[tried])
        assert {each.why for each in rewind.left_alone} == {"conflict"}
    rewind = await thief.rewind(**TOGETHER[others])
    assert {(each.why, each.location, each.by) for each in rewind.left_alone} == {("conflict", ("c", "f"), "b")}
    tree, _ = await done(thief)
    assert tree == (EXPECTED if others == "both" else {each: EXPECTED[each] for each in EXPECTED if each != "/own"})


async def test_the_plan_names_what_else_the_actor_has_made(thief: World) -> None:
    assert (await planned(thief, KEY)).related == [LINK]
    assert (await planned(thief, LINK)).related == [KEY]
    assert (await planned(thief, ActorFilter(user="ann"))).related == [LINK]
    for actor in (
        ActorFilter(key="k1", also=(LINK,)),
        ActorFilter(user="ann", with_links=True),
        ActorFilter(link="l2"),
    ):
        assert (await planned(thief, actor)).related == []
    assert (await planned(thief, ActorFilter(user="b"))).related == []
    await thief.note("ann", "key.add", session="s", key="k1")
    assert (await planned(thief, ActorFilter(session="s"))).related == [LINK, KEY]


async def test_what_a_session_has_undone_is_named(world: World) -> None:
    """It has the id of the rewind as its session."""
    own = await world.rewinds.begin(RewindRequest(ActorFilter(user="ann"), 0, own=1), Plan([], []))
    world.credentials = {name: {"user": "ann", "session": session} for name, session in (("t", "s"), ("r", own))}
    await done(world, *FILES, Act("t", "upload", "/d/f", content=b"t"), Act("t", "upload", "/f", content=b"t"))
    await done(world, Act("r", "delete", "/f"))
    for rewind_id in (own, "another"):
        await world.note("t", "rewind", subject=rewind_id)
    found = await planned(world, ActorFilter(session="s"))
    assert [(each.location, each.by) for each in found.left_alone] == [(("c", "f"), f"ann (rewind {own})")]
    assert found.related == [ActorFilter(session=own)]
    both = ActorFilter(session="s", also=(ActorFilter(session=own),))
    assert ((found := await planned(world, both)).left_alone, found.related) == ([], [])
