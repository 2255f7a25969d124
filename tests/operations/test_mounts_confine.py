"""Ways around a table of mounts that are closed: each of these once worked."""

import asyncio
import os
from contextlib import aclosing
from typing import Any

import pytest

from portico.accounts.api_keys import KeyScope
from portico.drive.drive import OnConflict
from portico.model.entries import Download
from portico.model.errors import Changed, Forbidden, InvalidCursor, NotFound, NotPossible, NotSignedIn, PorticoError
from portico.model.reach import folded
from portico.model.rights import ALL_RIGHTS
from portico.operations.files.digests import sha256_of
from portico.operations.files.search import Criteria
from portico.operations.uploads.access import NewUpload
from portico.providers.contract.registry import open_provider
from portico.providers.contract.uploads import WriteOptions

from .test_mounts import Company, company, everywhere, impatient, read, tree_of
from .test_scope import LARGE, Acting, guest_of
from .test_second_front_end import at, chunks, installation

__all__ = ["company", "everywhere", "impatient", "installation"]


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
    async with guest.request() as operations:
        if what == "read":
            content = (await operations.files.read(at("/hr/plan"))).chunks
        else:
            content = (await operations.files.archive(at("/"))).chunks()
        with pytest.raises(NotSignedIn):
            await _until_refused(content, company.mount("/team/hr", "archive/", ""))


async def test_a_chosen_file_of_a_virtual_folder_is_lost_with_its_mount(company: Company) -> None:
    company.put("hr/plan")
    with (company.files / "hr/plan").open("wb") as file:
        file.truncate(LARGE)
    await company.mount("/team/hr", "local/hr")
    await company.unmount("/")
    async with (await company.user()).request() as operations:
        content = (await operations.files.archive(at("/team"), [at("/team/hr/plan")])).chunks()
        with pytest.raises(Forbidden):
            await _until_refused(content, company.unmount("/team/hr"))


async def _until_refused(content: Any, loss: Any) -> None:
    async with asyncio.timeout(5), aclosing(content):
        await anext(content)
        await loss
        async for _ in content:
            await asyncio.sleep(0)


@pytest.mark.parametrize("path", ["/f", "/hidden", "/hidden/f", "/deep/f", "/other/f"])
async def test_nothing_can_be_deleted_where_nothing_is(company: Company, path: str) -> None:
    await company.mount("/deep/m", "archive/")
    await company.mount("/hidden", "local/web", "")
    await company.unmount("/")
    async with (await company.user()).request() as operations:
        with pytest.raises(Forbidden):
            await operations.files.delete(at(path), recursive=True)


@pytest.fixture
def caseless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local folders count as a storage that ignores case. Files that are read are spelled as they are stored."""

    async def ignores_case(*_: Any) -> bool:
        return True

    monkeypatch.setattr("portico.drive.instrumented.InstrumentedProvider.ignores_case", ignores_case)


def by_key(company: Company, user: Acting, key: str) -> Acting:
    return Acting(company.installation, lambda context: user.gateway.authentication.with_token(context, key))


@pytest.mark.usefixtures("caseless")
async def test_a_mount_in_another_case_ends_what_was_begun_before(company: Company) -> None:
    """Keys, links and downloads, for the folder itself and for one above it."""
    company.put("web/Deep/HR/plan")
    company.put("web/Deep/a")
    with (company.files / "web/Deep/HR/plan").open("wb") as file:
        file.truncate(LARGE)
    await company.installation.users.change("web", rights=ALL_RIGHTS)
    user = await company.user()
    acting: dict[str, Acting] = {}
    async with user.request() as operations:
        for folder in ("/Deep", "/Deep/HR"):
            text = (await operations.account.add_key(KeyScope("key", None, at(folder)))).text
            acting[f"key {folder}"] = by_key(company, user, text)
            acting[f"link {folder}"] = await guest_of(company.installation, folder)
    for mount in ("/deep/hr", "/Deep/hr"):
        async with user.request() as operations:
            content = (await operations.files.read(at("/Deep/HR/plan"))).chunks
            with pytest.raises(Forbidden):
                await _until_refused(content, company.mount(mount, "archive/", ""))
        for who, limited in acting.items():
            path = "/plan" if who.endswith("HR") else "/HR/plan"
            with pytest.raises((NotFound, NotSignedIn)):
                async with limited.request() as operations:
                    await read(operations, path)
            if not who.endswith("HR"):
                async with limited.request() as operations:
                    assert await read(operations, "/a") == b"content"
        await company.unmount(mount)
    for limited in acting.values():
        async with limited.request() as operations:
            await operations.files.list(at("/"), 10)


async def test_a_link_to_a_file_is_not_for_the_folder_of_a_mount(company: Company) -> None:
    company.put("web/in/report", b"shared")
    company.put("web/report", b"private")
    await company.installation.users.change("web", rights=ALL_RIGHTS)
    guest = await guest_of(company.installation, "/in/report")
    await company.mount("/m", "local/web/in/report")
    async with guest.request() as operations:
        assert await read(operations, "/report") == b"shared"


async def test_a_search_with_a_made_up_cursor_is_refused(company: Company) -> None:
    company.put("web/a")
    company.put("web/b/c")
    await company.mount("/m", "archive/")
    async with (await company.user()).request() as operations:
        table = operations.files._tree.reach.digest
        for number, before in (("9" * 5000, "0"), ("0", "9" * 5000), ("٣", "0"), ("1", "²"), ("-1", "0")):
            with pytest.raises(InvalidCursor):
                await operations.files.search(at("/"), _ANY, 10, f"{table}~{number}~{before}~")


_ANY = Criteria()


async def test_an_upload_ends_if_its_path_leads_elsewhere_from_the_same_folder(company: Company) -> None:
    await company.installation.users.change("web", rights=ALL_RIGHTS)
    async with (await company.user()).request() as operations:
        begun = await operations.uploads.create(NewUpload(at("/sub/f"), 1))
    await company.mount("/sub", "local/web")
    async with (await company.user()).request() as operations:
        with pytest.raises(NotFound):
            await operations.uploads.append(begun.id, 0, chunks(b"x"))
    assert not [*company.files.rglob("f")]


async def test_a_repeated_request_is_answered_though_the_root_is_hidden(company: Company) -> None:
    await company.mount("/m", "local/m")
    await company.unmount("/")
    await company.mount("/", "archive/", "")
    actor = await (await company.user()).actor()
    idempotency = (await company.user()).gateway.idempotency
    attempt: Any = await idempotency.begin(actor, "key", b"x" * 32)
    await attempt.answer(b"done")
    assert await idempotency.begin(actor, "key", b"x" * 32) == b"done"


@pytest.mark.parametrize("spelling", ["SALARIES", "salarıes", "ſalarieſ", "sala\u200dries", "salaries\ufe0f"])
def test_what_any_storage_may_take_for_a_mount_point_is_compared(spelling: str) -> None:
    assert folded(spelling) == folded("salaries")


async def test_no_file_is_lost_where_two_names_become_one(everywhere: Company) -> None:
    everything = {f"/{name}": name.encode() for name in ("A", *(f"B{number}" for number in range(8)), "a")}
    for path, content in everything.items():
        everywhere.put(f"web/tree{path}", content)
    async with (await everywhere.user()).request() as operations:
        for before in (False, True):
            if before:
                await operations.files.make_folder(at("/azure-files/tree"))
            with pytest.raises(PorticoError):
                await operations.files.move(at("/tree"), at("/azure-files/tree"))
            assert await tree_of(operations, "/tree") == everything
            await operations.files.delete(at("/azure-files/tree"), recursive=True)
        await operations.files.move(at("/tree"), at("/s3/tree"))
        assert await tree_of(operations, "/s3/tree") == everything


async def test_names_that_no_path_can_have_stay_where_they_are(
    everywhere: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without a trash."""
    monkeypatch.setattr("portico.drive.trash.DriveTrash.is_on", False)
    everywhere.put("web/tree/in/a")
    os.mkfifo(everywhere.files / "web/tree/in/pipe")
    everywhere.put(os.fsdecode(b"web/tree/\xff"))
    async with (await everywhere.user()).request() as operations:
        await operations.files.move(at("/tree"), at("/s3/tree"))
        assert await tree_of(operations, "/s3/tree") == {"/in": b"", "/in/a": b"content"}
        assert not (everywhere.files / "web/tree/in/a").exists()
    assert (everywhere.files / os.fsdecode(b"web/tree/\xff")).read_bytes() == b"content"
    assert (everywhere.files / "web/tree/in/pipe").exists()


async def test_a_copy_that_is_gone_again_keeps_its_source(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    company.put("web/tree/a")
    company.put("web/b")
    await company.mount("/m", "archive/")

    async def removing(download: Download) -> bytes | None:
        found = await sha256_of(download)
        for path in ("tree/a", "b"):
            (company.files.parent / "archive" / path).unlink(missing_ok=True)
        return found

    monkeypatch.setattr("portico.operations.files.transfer.sha256_of", removing)
    async with (await company.user()).request() as operations:
        for path in ("/tree", "/b"):
            with pytest.raises(Changed):
                await operations.files.move(at(path), at(f"/m{path}"))
        assert await read(operations, "/tree/a") == await read(operations, "/b") == b"content"


async def test_places_are_the_same_in_any_case(company: Company) -> None:
    """The storage may ignore case, and a refusal loses nothing."""
    await company.mount("/mirror", "local/web")
    company.put("web/a")
    async with (await company.user()).request() as operations:
        with pytest.raises(NotPossible):
            await operations.files.move(at("/a"), at("/mirror/A"))


async def test_a_mount_is_listed_though_a_file_has_the_name_of_its_folder(everywhere: Company) -> None:
    """On an object store. The file is outside the tree."""
    async with (await everywhere.user()).request() as operations:
        await operations.files.store(at("/s3/x"), chunks(b"x"))
        provider: Any = (await operations.files._tree.at(at("/s3")))[0]._provider
        await provider._inner.store("in", chunks(b"file"), "text/plain", WriteOptions())
        page = await operations.files.list(at("/s3"), 10, file_first=True)
        assert [entry.name for entry in page.entries] == ["x"]


async def test_connections_to_one_bucket_are_known_by_any_address() -> None:
    async def key(endpoint: str | None) -> tuple[str, ...]:
        options = {"bucket": "company"} if endpoint is None else {"bucket": "company", "endpoint-url": endpoint}
        provider = open_provider("s3", {**options, "access-key-id": "key", "secret-access-key": "secret"})
        try:
            return provider.key(at("/a"))
        finally:
            await provider.close()

    amazon = await key(None)
    assert amazon == await key("https://s3.eu-west-1.amazonaws.com") == await key("https://S3.amazonaws.com/")
    other = await key("https://storage.example")
    assert other == await key("http://storage.example")
    assert len({amazon, other, await key("https://amazonaws.com.example")}) == 3
