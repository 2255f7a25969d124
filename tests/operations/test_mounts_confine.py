"""Ways around a table of mounts that are closed: each of these once worked."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from portico.accounts.api_keys import KeyScope
from portico.drive.drive import OnConflict
from portico.model.errors import Forbidden, InvalidCursor, NotFound, NotPossible, NotSignedIn, PorticoError
from portico.model.rights import ALL_RIGHTS
from portico.operations.operations import Operations
from portico.operations.sharing.links import LinkKind
from portico.operations.uploads.access import NewUpload

from .test_mounts import Company, company, found_by, impatient, names, read
from .test_scope import LARGE, Acting, guest_of
from .test_second_front_end import at, chunks, installation

__all__ = ["company", "impatient", "installation"]


@pytest.mark.parametrize("place", ["local/other", "archive/other"])
async def test_nothing_is_put_over_the_root_or_copied_from_it(company: Company, place: str) -> None:
    """What a mount covers would be written, or copied along."""
    await company.mount("/hr", "local/web/hr", "list")
    await company.mount("/m", place)
    company.put("web/hr/plan", b"secret")
    async with (await company.user()).request() as operations:
        await operations.files.store(at("/m/in/hr/plan"), chunks(b"forged"))
        for change in (operations.files.copy, operations.files.move):
            for source, target in (("/m/in", "/"), ("/", "/m/all")):
                for on_conflict in (None, *OnConflict):
                    with pytest.raises(NotPossible):
                        await change(at(source), at(target), on_conflict)
        with pytest.raises(NotFound):
            await operations.files.stat(at("/m/all"))
    assert (company.files / "web/hr/plan").read_bytes() == b"secret"


async def test_an_item_in_the_trash_that_holds_a_mount_is_left_to_others(company: Company) -> None:
    company.put("web/team/closed/secret")
    company.put("web/a")
    async with (await company.user()).request() as operations:
        await operations.files.delete(at("/team"), recursive=True)
        await operations.files.delete(at("/a"))
    await company.mount("/team/closed", "archive/", "")
    async with (await company.user()).request() as operations:
        team = (await operations.trash.list(10)).items[1]
        assert team.path == at("/team")
        for refused in (operations.trash.remove(team.id), operations.trash.restore(team.id)):
            with pytest.raises(NotPossible):
                await refused
        assert await operations.trash.empty() == 1
        assert [item.id for item in (await operations.trash.list(10)).items] == [team.id]
    await company.unmount("/team/closed")
    async with (await company.user()).request() as operations:
        await operations.trash.restore(team.id)
        assert await read(operations, "/team/closed/secret") == b"content"


@pytest.mark.parametrize("what", ["read", "zip"])
async def test_a_guest_loses_what_a_new_mount_hides(company: Company, what: str) -> None:
    company.put("web/team/hr/plan")
    company.put("web/team/a")
    with (company.files / "web/team/hr/plan").open("wb") as file:
        file.truncate(LARGE)
    await company.installation.users.change("web", rights=ALL_RIGHTS)
    guest = await guest_of(company.installation, "/team")
    with pytest.raises(PorticoError):
        async with guest.request() as operations:
            if what == "read":
                content = (await operations.files.read(at("/hr/plan"))).chunks
            else:
                content = (await operations.files.archive(at("/"))).chunks()
            await _until_refused(content, company.mount("/team/hr", "archive/", ""))


async def test_a_chosen_file_of_a_virtual_folder_is_lost_with_its_mount(company: Company) -> None:
    company.put("hr/plan")
    with (company.files / "hr/plan").open("wb") as file:
        file.truncate(LARGE)
    await company.mount("/team/hr", "local/hr")
    await company.unmount("/")
    with pytest.raises(Forbidden):
        async with (await company.user()).request() as operations:
            content = (await operations.files.archive(at("/team"), [at("/team/hr/plan")])).chunks()
            await _until_refused(content, company.unmount("/team/hr"))


async def _until_refused(content: Any, loss: Any) -> None:
    async with asyncio.timeout(5), aclosing(content):
        await anext(content)
        await loss
        async for _ in content:
            await asyncio.sleep(0)
