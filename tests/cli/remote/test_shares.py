"""`portico share`, and links used by both clients."""

import asyncio
from pathlib import Path

import pytest

from portico.client import AsyncClient, Client, Forbidden, LimitReached, MoreNeeded, NotFound, WrongPassword

from ...gateways import Gateway
from ..conftest import Portico


@pytest.fixture
def sharing(portico: Portico, gateway: Gateway, config: Path, here: Path) -> Portico:
    """The command, signed in as somebody who may share."""
    if "sharer" not in gateway.command("user", "list"):
        rights = "list,download,upload,overwrite,share"
        gateway.command(
            *("user", "add", "sharer", "--root", "/web", "--rights", rights, "--password-stdin"), stdin="pass word"
        )
    outcome = portico("login", gateway.url, "--user", "sharer", "--password-stdin", stdin="pass word")
    assert outcome.code == 0, outcome.err
    return portico


def test_a_link_from_its_making_to_its_end(sharing: Portico, gateway: Gateway, there: Path, here: Path) -> None:
    assert "You have no links" in sharing("share", "list").out
    (there / "inbox").mkdir(parents=True)
    made = sharing(
        *("share", "add", "/inbox", "--kind", "request", "--title", "Papers", "--expires", "7d", "--json"),
        *("--max-uploads", "2", "--types", "txt,image/*", "--folder-per-sender"),
    )
    assert made.code == 0, made.err
    link = made.data
    assert link["address"].startswith(f"{gateway.url}/s/")

    with Client(gateway.url) as guest:
        with pytest.raises(MoreNeeded):
            guest.open_link(link["address"])
        guest.open_link(link["address"], name="Anna")
        stored = guest.upload(b"first", "/a.txt", receipt=True)
        assert stored
        assert stored.receipt
        guest.upload(b"second", "/a.txt")
        with pytest.raises(LimitReached):
            guest.upload(b"third", "/b.txt")
        with pytest.raises(Forbidden):
            list(guest.list("/"))
    assert sorted(each.name for each in (there / "inbox/Anna").iterdir()) == ["a (1).txt", "a.txt"]

    listed = sharing("share", "list").out.splitlines()
    assert listed[0].split() == ["id", "path", "kind", "state", "downloads", "uploads", "expires"]
    assert listed[1].split()[1:6] == ["/inbox", "request", "used-up", "0", "2/2"]
    logged = sharing("share", "log", link["id"]).out
    assert "/inbox/Anna/a (1).txt" in logged
    renewed = sharing("share", "address", link["id"]).out.strip()
    assert renewed != link["address"]
    assert sharing("share", "end", link["id"]).out == f"Ended the link {link['id']}.\n"
    assert "ended" in sharing("share", "list").out
    assert sharing("share", "end", link["id"]).code == 1
    assert sharing("share", "add", "/inbox", "--kind", "all").code == 2
    assert sharing("share", "add", "/none").code == 1
    with Client(gateway.url) as guest, pytest.raises(NotFound):
        guest.open_link(renewed)


def test_a_download_by_the_async_client(sharing: Portico, gateway: Gateway, there: Path, here: Path) -> None:
    (there / "out").mkdir(parents=True)
    (there / "out/a.txt").write_text("content")
    made = sharing("share", "add", "/out", "--password-stdin", stdin="a password\n")
    assert made.code == 0, made.err

    async def fetch() -> None:
        async with AsyncClient(gateway.url) as guest:
            with pytest.raises(WrongPassword):
                await guest.open_link(made.out.strip(), password="wrong one")
            await guest.open_link(made.out.strip(), password="a password")
            assert [entry.name async for entry in guest.list("/")] == ["a.txt"]
            await guest.download("/a.txt", here / "a.txt")
        async with AsyncClient(gateway.url, username="sharer", password="pass word") as owner:
            own = await owner.share("/out/a.txt", max_downloads=1)
            assert (own.address or "").startswith(f"{gateway.url}/s/")
            changed = await owner.change_link(own.id, title="New", max_downloads=None)
            assert (changed.title, changed.max_downloads, changed.address) == ("New", None, None)
            assert own.id in [link.id for link in await owner.links()]
            assert await owner.link_accesses(own.id) == []
            assert (await owner.renew_link(own.id)).address != own.address
            await owner.end_link(own.id)

    asyncio.run(fetch())
    assert (here / "a.txt").read_text() == "content"
