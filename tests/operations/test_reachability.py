"""Who reaches a place agrees with what requests can do."""

from collections.abc import AsyncIterator

import pytest

from portico.accounts.groups import Groups
from portico.accounts.mounts import Mounts, owner_of
from portico.accounts.share_links import ShareLinks
from portico.model.paths import Path, Place
from portico.model.reach import MountRule
from portico.model.rights import Right, parse_rights
from portico.operations.reachability import Reachability, Reached
from portico.operations.sharing.links import LinkKind, LinkOptions

from .test_scope import signed_in
from .test_second_front_end import Installation, at, installation

__all__ = ["installation"]


@pytest.fixture
async def reachability(installation: Installation) -> Reachability:
    operations = installation.front_end.gateway.operations
    return Reachability(operations.args[0].trees.pool)  # type: ignore[attr-defined]


async def links_to(installation: Installation, reachability: Reachability, place: str) -> list[tuple[str, str, str]]:
    guests = installation.guests
    links: ShareLinks = guests._links
    found: AsyncIterator[Reached] = reachability.who(
        Place("local", Path.parse(place)), [], [], await links.open(), links.policy, links._database.now()
    )
    return [
        (each.link.title if each.link else "", str(each.path), " ".join(sorted(each.mount.rights)))
        async for each in found
    ]


async def test_links(installation: Installation, reachability: Reachability) -> None:
    await installation.users.change("web", rights=frozenset(Right))
    (installation.files / "sub").mkdir()
    for name in ("sub/a.txt", "sub/b.txt"):
        (installation.files / name).write_text("x")
    user = await signed_in(installation)
    async with user.request() as operations:
        await operations.shares.add(at("/sub"), LinkKind.DOWNLOAD, LinkOptions(title="folder"))
        await operations.shares.add(at("/sub/a.txt"), LinkKind.DOWNLOAD, LinkOptions(title="file"))
        await operations.shares.add(at("/sub"), LinkKind.REQUEST, LinkOptions(title="request"))
        ended = await operations.shares.add(at("/sub"), LinkKind.BOTH, LinkOptions(title="ended"))
        await operations.shares.end(ended.link.id)
    folder, request = ("folder", "/a.txt", "download list"), ("request", "/a.txt", "upload")
    assert await links_to(installation, reachability, "/web/sub/a.txt") == [
        folder,
        ("file", "/a.txt", "download list"),
        request,
    ]
    assert [title for title, *_ in await links_to(installation, reachability, "/web/sub/b.txt")] == [
        "folder",
        "request",
    ]
    assert [title for title, *_ in await links_to(installation, reachability, "/web")] == ["folder", "file", "request"]
    assert await links_to(installation, reachability, "/other") == []
    await installation.users.change("web", rights=parse_rights("list download"))
    assert await links_to(installation, reachability, "/web/sub/a.txt") == []


async def test_a_mount_that_hides(installation: Installation, reachability: Reachability) -> None:
    links: ShareLinks = installation.guests._links
    database = links._database
    mounts, groups = Mounts(database), Groups(database)
    await groups.add("staff")
    await groups.join("staff", ["web"])
    await mounts.add(owner_of("@staff"), MountRule(Path.parse("/hr"), "local", "/web/hr", parse_rights("list")))
    await mounts.add(owner_of("web"), MountRule(Path.parse("/copy"), "local", "/web", parse_rights("download")))
    found = [
        (str(each.path), each.mount.group, str(each.rest))
        async for each in reachability.who(
            Place("local", Path.parse("/web/hr/x")), [await installation.users.get("web")], [], [], links.policy, 0
        )
    ]
    assert found == [("/copy/hr/x", None, "/"), ("/hr/x", "staff", "/")]
    explanation = await reachability.explain(await installation.users.get("web"), Path.parse("/hr/x"))
    assert explanation.mount
    assert (explanation.mount.group, str(explanation.place), explanation.entry) == ("staff", "local/web/hr/x", None)
