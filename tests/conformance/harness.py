"""The providers under test, and what is known to differ from one to the next.

A provider joins by an entry in `PROVIDERS`: a context that gives a `Harness` on fresh, empty storage and takes
it away again.
"""

import os
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path as Folder
from secrets import token_hex
from typing import Any

import pytest

from portico.model.errors import InvalidPath, PorticoError
from portico.model.paths import Path
from portico.providers.contract.provider import Provider
from portico.providers.contract.registry import KINDS, open_provider
from portico.providers.multipart.parts import MIN_PART_BYTES

from ..servers.azure_blob import Container, azure_blob_server
from ..servers.azure_files import Share, azure_files_server
from ..servers.azurite import KEY as AZURITE_KEY
from ..servers.azurite import Azurite
from ..servers.gcs import shared_server as gcs_server
from ..servers.moto_s3 import KEYS as MOTO_S3_KEYS
from ..servers.moto_s3 import moto_buckets, moto_s3
from ..servers.s3_buckets import make_buckets, remove_buckets
from ..servers.swift_s3 import KEYS as SWIFT_S3_KEYS
from ..servers.swift_s3 import swift_s3

Opener = Callable[[], Provider]


@dataclass(frozen=True, slots=True)
class Harness:
    open: Opener
    """One more provider object on the same storage, as another node has it. The caller closes it."""
    open_other: Callable[[], Awaitable[Provider]]
    """A provider of the same kind on other storage, made now: another bucket, container, share or folder."""
    part: int
    """At how many bytes the provider begins a new part, block or batch of an upload."""
    whole_order: bool = False
    """Whether folders first, by code point, holds over a whole folder and not only within a page."""
    effort: int = 1
    """How many generated cases a test may try where one is due: more where a call costs next to nothing."""
    keeps_types: bool = True
    """Whether the content type given to a write is kept, and not guessed from the name."""
    forbidden: str = ""
    """Characters that the service has in no name."""

    def holds(self, name: str) -> bool:
        return not set(self.forbidden) & set(name)


Factory = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Harness]]


@asynccontextmanager
async def local(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    top: Folder = request.getfixturevalue("tmp_path")

    async def make() -> Opener:
        folder = top / f"storage-{token_hex(8)}"
        folder.mkdir()
        return partial(open_provider, "local", {"folder": str(folder)})

    yield await _on_new_storage(make, part=2**20, whole_order=True, effort=20, keeps_types=False)


async def _on_new_storage(make: Callable[[], Awaitable[Opener]], **facts: Any) -> Harness:
    async def open_other() -> Provider:
        return (await make())()

    return Harness(await make(), open_other, **facts)


@asynccontextmanager
async def s3(_: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    endpoint = {"endpoint-url": moto_s3(), **MOTO_S3_KEYS}
    with ExitStack() as stack:

        async def make() -> Opener:
            bucket = f"bucket-{token_hex(8)}"
            stack.enter_context(moto_buckets(bucket))
            return partial(open_provider, "s3", {"bucket": bucket, **endpoint})

        yield await _on_new_storage(make, part=MIN_PART_BYTES)


@asynccontextmanager
async def s3_versions(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    """Buckets that keep versions."""
    endpoint = {"endpoint-url": moto_s3(), **MOTO_S3_KEYS}
    with ExitStack() as stack:

        async def make() -> Opener:
            bucket = f"bucket-{token_hex(8)}"
            stack.enter_context(moto_buckets(bucket))
            opener = partial(open_provider, "s3", {"bucket": bucket, **endpoint})
            provider: Any = opener()
            enabled = {"Status": "Enabled"}
            await provider._service.call("put_bucket_versioning", VersioningConfiguration=enabled)
            await provider.close()
            return opener

        yield await _on_new_storage(make, part=MIN_PART_BYTES)


@asynccontextmanager
async def s3_swift(_: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    endpoint = {"endpoint-url": swift_s3(), **SWIFT_S3_KEYS}
    buckets: list[str] = []

    async def make() -> Opener:
        buckets.append(f"bucket-{token_hex(8)}")
        await make_buckets(endpoint, buckets[-1:])
        return partial(open_provider, "s3", {"bucket": buckets[-1], **endpoint})

    yield await _on_new_storage(make, part=MIN_PART_BYTES)
    await remove_buckets(endpoint, buckets)


@asynccontextmanager
async def azure_blob(_: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    server = Azurite.running()
    account = {"account-url": server.url, "account-key": AZURITE_KEY}
    containers: list[str] = []

    async def make() -> Opener:
        containers.append(await server.new_container())
        return partial(open_provider, "azure-blob", {"container": containers[-1], **account})

    yield await _on_new_storage(make, part=MIN_PART_BYTES)
    for container in containers:
        await server.remove_container(container)


@asynccontextmanager
async def azure_blob_versions(_: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    """An account that keeps versions."""
    server = azure_blob_server()
    containers: list[str] = []

    async def make() -> Opener:
        containers.append(f"container-{token_hex(8)}")
        server.containers[containers[-1]] = Container()
        options = {"container": containers[-1], "connection-string": server.connection_string}
        return partial(open_provider, "azure-blob", options)

    yield await _on_new_storage(make, part=MIN_PART_BYTES)
    for container in containers:
        del server.containers[container]


@asynccontextmanager
async def azure_files(_: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    server = azure_files_server()
    shares: list[str] = []

    async def make() -> Opener:
        shares.append(f"share-{token_hex(8)}")
        server.shares[shares[-1]] = Share()
        options = {"share": shares[-1], "connection-string": server.connection_string}
        return partial(open_provider, "azure-files", options)

    yield await _on_new_storage(make, part=4 * 2**20, forbidden=_FORBIDDEN_BY_AZURE_FILES)
    for share in shares:
        del server.shares[share]


@asynccontextmanager
async def gcs(request: pytest.FixtureRequest, *, versioning: bool = False) -> AsyncIterator[Harness]:
    server = gcs_server()
    folder: Folder = request.getfixturevalue("tmp_path")
    account = {"endpoint-url": server.address, "service-account-file": server.write_key_file(folder / "key.json")}
    buckets: list[str] = []

    async def make() -> Opener:
        bucket = server.make_bucket(f"bucket-{token_hex(8)}")
        bucket.versioning = versioning
        buckets.append(bucket.name)
        return partial(open_provider, "gcs", {"bucket": buckets[-1], **account})

    yield await _on_new_storage(make, part=MIN_PART_BYTES)
    for bucket in buckets:
        del server.buckets[bucket]


def live(kind: str, storage: str, other: str) -> Factory:
    """A real account: the two variables hold a connection's options, `bucket=… region=…`; both places must be empty.

    They are emptied again after every test.
    """
    options = [dict(pair.split("=", 1) for pair in shlex.split(text)) for text in (storage, other)]

    @asynccontextmanager
    async def harness(_: pytest.FixtureRequest) -> AsyncIterator[Harness]:
        openers = [partial(open_provider, kind, chosen) for chosen in options]
        for opener in openers:
            assert not await _content(opener), f"the {kind} storage of the live tests is not empty"

        async def open_other() -> Provider:
            return openers[1]()

        yield Harness(openers[0], open_other, part=MIN_PART_BYTES)
        for opener in openers:
            await _empty(opener)

    return harness


async def _content(opener: Callable[[], Provider]) -> list[Path]:
    provider = opener()
    try:
        page = await provider.list_page(Path(), 1000, None)
        return [Path((entry.name,)) for entry in page.entries]
    finally:
        await provider.close()


async def _empty(opener: Callable[[], Provider]) -> None:
    while paths := await _content(opener):
        provider = opener()
        for path in paths:
            await provider.delete(path, recursive=True)
        await provider.close()


def _live_providers() -> Iterator[tuple[str, Factory]]:
    for kind in KINDS:
        variable = f"PORTICO_LIVE_{kind.upper().replace('-', '_')}"
        if variable in os.environ:
            yield f"live-{kind}", live(kind, os.environ[variable], os.environ[f"{variable}_OTHER"])


PROVIDERS: Mapping[str, Factory] = {
    "local": local,
    "s3": s3,
    "s3-versions": s3_versions,
    "s3-swift": s3_swift,
    "azure-blob": azure_blob,
    "azure-blob-versions": azure_blob_versions,
    "azure-files": azure_files,
    "gcs": gcs,
    "gcs-versions": partial(gcs, versioning=True),
    **dict(_live_providers()),
}

KEY_STORES = frozenset(
    {
        *("s3", "s3-versions", "s3-swift", "azure-blob", "azure-blob-versions", "gcs", "gcs-versions"),
        *("live-s3", "live-azure-blob", "live-gcs"),
    }
)
"""The providers that keep files by key, where a file and a folder may share a name."""

_WITH_VERSIONS = frozenset(
    {
        "test_a_deleted_file_comes_back",
        "test_a_deleted_folder_comes_back_with_all_it_held",
        "test_what_is_replaced_comes_back",
        "test_a_merge_keeps_what_it_replaces",
        "test_what_a_merge_replaced_comes_back",
        "test_what_a_restored_folder_replaces_is_kept",
        "test_what_is_removed_or_expired_is_gone",
        "test_nothing_is_lost_when_the_process_dies",
        "test_a_restored_merge_replaces_nothing_unasked",
        "test_a_restore_mixes_no_file_with_a_folder",
        "test_a_restore_lists_the_item_once",
        "test_a_path_may_be_too_long_below_another_name",
        "test_replaced_file_is_deleted_as_it_is_then",
        "test_version_that_a_service_denies_is_removed",
    }
)
VERSIONED: tuple[str, ...] = ("s3-versions", "azure-blob-versions", "gcs-versions")
"""Storage that keeps versions."""

SECOND_LAYER: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(VERSIONED, _WITH_VERSIONS),
    "s3-swift": frozenset(
        {
            # Signatures of bodies and headers
            "test_bytes_in_are_bytes_out",
            "test_ranges",
            "test_the_content_type",
            # Conditions, and what a broken write leaves
            "test_a_body_that_breaks_leaves_nothing",
            "test_a_cancelled_write_leaves_nothing",
            "test_a_file_may_be_kept",
            "test_a_renamed_file_keeps_both",
            "test_another_version_is_recognised_by_its_etag",
            "test_many_writers_who_rename_all_win",
            "test_nothing_is_seen_before_the_last_piece",
            # Not `test_one_of_many_writers_wins_where_nothing_may_be_replaced`: Swift looks for the object when an upload
            # begins, not when it ends, so that it is left to chance whether a second writer wins.
            "test_readers_see_whole_versions_while_writers_replace",
            "test_the_version_that_was_seen_is_replaced",
            "test_a_file_that_is_gone_is_not_made_again",
            "test_a_change_while_the_content_arrives_is_noticed",
            "test_any_cut_gives_the_same_file",
            "test_finishing_may_be_repeated",
            "test_another_name_is_chosen_at_the_end",
            # Paging
            "test_a_cursor_outlives_the_provider_object",
            "test_a_cursor_works_again_and_again",
            "test_a_walk_goes_on_when_the_entry_it_stopped_at_is_gone",
            "test_a_walk_shows_every_entry_once_and_pages_are_ordered",
            "test_unchanged_entries_are_listed_once_while_others_come_and_go",
        }
    ),
}
"""Further servers of a kind, and the tests that are worth their time there: of what the first server takes lightly."""

THOROUGH = frozenset({"s3-swift"})
"""Servers that only a thorough run starts."""

COSTLY = frozenset({"s3", "azure-blob"})
"""Stores of keys with a slow test server. What is decided above the services is tried on GCS in an ordinary run."""

ROOTS: Mapping[str, str] = {"top": "", "below": "team/a"}
"""Where the drive under test begins in its provider."""


@dataclass(frozen=True, slots=True)
class Refusal:
    error: type[PorticoError]
    reason: str


SERVER_GAPS: Mapping[tuple[str, str], str] = {}
"""(provider, test) -> why the test's server, unlike the service itself, cannot do this; with a link."""

_FORBIDDEN_BY_AZURE_FILES = '"\\/:|<>*?\ue000\U0010ffff'
"""And more code points like the last two, see below."""
_NAMING = "https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-shares--directories--files--and-metadata"
_AZURE_CASE = Refusal(InvalidPath, f"Azure Files compares names without case: {_NAMING}")

SERVICE_LIMITS: Mapping[tuple[str, str], Refusal] = {
    ("azure-files", "test_names_that_look_alike_are_different_names"): _AZURE_CASE
}
"""(provider, test) -> with which error the service itself forbids this, and where it says so."""


def known_gap(provider: str, test: str) -> pytest.MarkDecorator | None:
    """The mark for a test that is known to fail. It is strict: the run fails when the test no longer does.

    `test` is the function's name, with its own case if it has one: `test_a_taken_name[small]`.
    """
    if reason := SERVER_GAPS.get((provider, test)):
        return pytest.mark.xfail(strict=True, reason=reason)
    if refusal := SERVICE_LIMITS.get((provider, test)):
        return pytest.mark.xfail(strict=True, raises=refusal.error, reason=refusal.reason)
    return None
