"""The provider for a bucket of Google Cloud Storage."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from urllib.parse import quote, urlsplit

from portico.entries import Download, Entry, guess_content_type
from portico.errors import AlreadyExists, Changed, InvalidCursor, InvalidPath, InvalidRequest, already_exists
from portico.providers.answers import check_count, check_sizes, nonsense
from portico.providers.base import TIMEOUT_SECONDS
from portico.providers.gcs.answers import (
    FLAT_FIELDS,
    LIST_FIELDS,
    OBJECT_FIELDS,
    REWRITE_FIELDS,
    ObjectAnswer,
    read_listing,
    read_object,
    read_rewrite,
)
from portico.providers.gcs.checksums import Checksum
from portico.providers.gcs.credentials import Anonymous, Tokens
from portico.providers.gcs.downloads import ObjectReader
from portico.providers.gcs.failures import FAILURES, ServiceError, translated
from portico.providers.gcs.service import Patience, Request, Service
from portico.providers.gcs.uploads import CHUNK, Session, Upload, single_request
from portico.providers.keys import Listing, Version
from portico.providers.memory import Lease
from portico.providers.objects import ObjectStore
from portico.providers.parts import UPLOADS, Part, cut, send_all
from portico.providers.tasks import each
from portico.providers.transport import page_bytes
from portico.timestamps import from_isos

_ENDPOINT = "https://storage.googleapis.com"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_FORBIDDEN_PREFIX = ".well-known/acme-challenge/"
_REMOVALS_AT_ONCE = 16
_LONGEST_ENTRY = 4096
"""Bytes of a listing: a name of 1,024, some of them written as more than one, and what else is said of it."""
_BRIEF = 3
"""The part of the deadline that a look takes at most after an upload whose answer was lost."""
_MOST_IDLE_STEPS = 16
"""Answers in a row by which a copy may not have come further."""


class GcsProvider(ObjectStore):
    kind = "gcs"
    max_page_size = 1000
    max_file_size = 5 * 2**40

    def __init__(
        self,
        bucket: str,
        service_account_file: str | None = None,
        endpoint_url: str | None = None,
        anonymous: str = "false",
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        super().__init__()
        _check_options(bucket, service_account_file, endpoint_url, anonymous)
        endpoint = (endpoint_url or _ENDPOINT).rstrip("/")
        self.identity = f"{endpoint}/{bucket}"
        credentials = Anonymous() if anonymous == "true" else Tokens(service_account_file)
        self._service = Service(endpoint, credentials, timeout)
        self._bucket = bucket
        self._objects = f"{endpoint}/storage/v1/b/{bucket}/o"
        self._uploads = f"{endpoint}/upload/storage/v1/b/{bucket}/o"

    async def close(self) -> None:
        await self._service.close()

    # Looking

    async def list_keys(self, prefix: str, size: int, token: str | None, *, flat: bool = False) -> Listing:
        params = {
            "fields": FLAT_FIELDS if flat else LIST_FIELDS,
            "maxResults": str(size),
            "prefix": prefix or None,
            "delimiter": None if flat else "/",
            "pageToken": token,
            "prettyPrint": "false",
        }
        most = page_bytes(size, _LONGEST_ENTRY)
        with translated(prefix):
            try:
                answer = await self._service.call(Request("GET", self._objects, params, at_most=most))
            except ServiceError as error:
                if error.status == 400 and token is not None and error.reason != "required":
                    raise InvalidCursor(
                        "The storage service no longer takes this cursor; start again without one."
                    ) from None
                error.missing_bucket = error.status == 404
                raise
        page = read_listing(answer.body, size)
        if page.next_page_token is not None and page.next_page_token == token:
            raise nonsense("the page token that it was asked with: the listing would never end")
        check_count(len(page.items) + len(page.prefixes), size)
        check_sizes([-1 if item.size is None else item.size for item in page.items])
        try:
            moments = from_isos([item.last_modified or "" for item in page.items])
        except ValueError:
            raise nonsense("a listing with an object that lacks its time") from None
        for item, modified in zip(page.items, moments, strict=True):
            item.last_modified = modified
            item.content_type = item.content_type or guess_content_type(item.name)
        return Listing([*page.items], page.prefixes, page.next_page_token or None)

    async def find(self, key: str) -> Entry | None:
        found = await self._look(key)
        return found.entry() if found else None

    async def _look(self, key: str, within: float | None = None) -> ObjectAnswer | None:
        request = Request("GET", self._url(key), {"fields": OBJECT_FIELDS})
        with translated(key):
            try:
                answer = await self._service.call(request, within)
            except ServiceError as error:
                if error.status == 404 and not error.missing_bucket:
                    return None
                raise
        return read_object(answer.body)

    async def open(self, key: str, start: int, stop: int | None, etag: str | None) -> Download:
        return await ObjectReader(self._service, self._url(key), key, self.find).open(start, stop, etag)

    # Storing

    async def store(
        self, key: str, chunks: AsyncIterator[bytes], content_type: str, *, replace: bool, at_most: int | None
    ) -> Entry:
        if key.startswith(_FORBIDDEN_PREFIX):
            raise InvalidPath("The storage service keeps the folder '.well-known/acme-challenge' for itself.")
        upload = Upload(self._uploads, key, content_type, replace=replace)
        async with (
            UPLOADS.lease() as lease,
            aclosing(cut(chunks, lambda _: CHUNK, lease, at_most=at_most)) as parts,
        ):
            first = await anext(parts)
            if not first.last:
                return (await self._resumable(upload, first, parts, lease)).entry()
            with _storing(key):
                return (await self._insert(upload, first)).entry()

    async def _insert(self, upload: Upload, part: Part) -> ObjectAnswer:
        """Store an object by one request.

        Where an answer is lost, a look shows whether the object is ours. If it is not, the next attempt replaces
        only what was seen, so that one which arrives late after all does not undo another's work.
        """
        checksum = Checksum()
        checksum.add(part.chunks)
        generation = None if upload.replace else 0
        patience = Patience()
        in_doubt = False
        while True:
            try:
                answer = await self._service.once(single_request(upload, part, checksum, generation))
                return read_object(answer.body)
            except FAILURES as error:
                outrun = in_doubt and isinstance(error, ServiceError) and error.status == 412
                if isinstance(error, ServiceError) and not (error.temporary or outrun):
                    raise
                lost = error
            in_doubt = True
            # Not for as long again: whoever waits has waited already.
            found = await self._look(upload.key, self._service.timeout / _BRIEF)
            if found and found.mark == upload.mark:
                return found
            if found and not upload.replace:
                raise _exists(_name(upload.key))
            generation = found.generation if found else 0
            await patience.after(lost, again=outrun or None)

    async def _resumable(
        self, upload: Upload, first: Part, rest: AsyncIterator[Part], lease: Lease
    ) -> ObjectAnswer:
        with _storing(upload.key):
            session = await Session.begin(self._service, upload)

        async def send(part: Part) -> ObjectAnswer | None:
            with _storing(upload.key):  # and not around all: what `rest` raises is not the service's
                return await session.send(part)

        try:
            answers = await send_all(first, rest, send, lease)
        except BaseException:
            await asyncio.shield(session.cancel())
            raise
        stored = answers[-1]
        assert stored is not None
        return stored

    # Copying and removing

    async def duplicate(self, source: Version, target: str, *, replace: bool) -> None:
        url = f"{self._url(source.key)}/rewriteTo/b/{self._bucket}/o/{quote(target, safe='')}"
        params: dict[str, str | None] = {
            "fields": REWRITE_FIELDS,
            "ifGenerationMatch": None if replace else "0",
            "ifSourceGenerationMatch": source.etag,
        }
        patience = Patience()
        in_doubt = False
        rewritten = idle = 0
        with translated(_name(source.key)):
            while True:
                try:
                    answer = read_rewrite((await self._service.once(Request("POST", url, params))).body)
                except FAILURES as error:
                    if isinstance(error, ServiceError) and error.status == 412:
                        await self._check_generation(source)
                        if in_doubt and await self._same(source.key, target):
                            return
                        raise _exists(_name(target)) from None
                    await patience.after(error)
                    in_doubt = True
                    continue
                if answer.done:
                    return
                if answer.rewrite_token is None:
                    raise nonsense("word of a copy that is not done and does not say how it goes on")
                idle = 0 if answer.total_bytes_rewritten > rewritten else idle + 1
                if idle >= _MOST_IDLE_STEPS:
                    raise nonsense("word of a copy that goes on and on without getting further")
                rewritten = answer.total_bytes_rewritten
                params["rewriteToken"] = answer.rewrite_token
                patience = Patience()

    async def _check_generation(self, version: Version) -> None:
        found = await self._look(version.key)
        if found and version.etag is not None and str(found.generation) != version.etag:
            raise Changed(f"'{_name(version.key)}' has changed meanwhile; start again.")

    async def _same(self, one: str, other: str) -> bool:
        """Whether two objects hold the same bytes."""
        first, second = await asyncio.gather(self._look(one), self._look(other))
        if first is None or second is None or first.crc32c is None:
            return False
        return (first.size, first.crc32c) == (second.size, second.crc32c)

    async def remove(self, keys: list[str]) -> None:
        await self.remove_versions([Version(key, None) for key in keys])

    async def remove_versions(self, versions: list[Version]) -> None:
        await each(self._remove, versions, _REMOVALS_AT_ONCE)

    async def _remove(self, version: Version) -> None:
        request = Request("DELETE", self._url(version.key), {"ifGenerationMatch": version.etag})
        with translated(_name(version.key)):
            try:
                await self._service.call(request)
            except ServiceError as error:
                gone = error.status == 404 and not error.missing_bucket
                if not (gone or (error.status == 412 and version.etag is not None)):
                    raise

    def _url(self, key: str) -> str:
        return f"{self._objects}/{quote(key, safe='')}"


def _check_options(bucket: str, key_file: str | None, endpoint: str | None, anonymous: str) -> None:
    if not _BUCKET.fullmatch(bucket):
        raise InvalidRequest("The option 'bucket' is the bucket's bare name, without 'gs://' and folders.")
    if anonymous not in ("true", "false"):
        raise InvalidRequest("The option 'anonymous' is either 'true' or 'false'.")
    if anonymous == "true" and key_file:
        raise InvalidRequest("The options 'anonymous' and 'service-account-file' exclude each other.")
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InvalidRequest("The option 'endpoint-url' is an address such as http://127.0.0.1:4443.")


@contextmanager
def _storing(key: str) -> Iterator[None]:
    """As `translated`, where a condition that fails and a thing that is missing can each be but one."""
    with translated(_name(key)):
        try:
            yield
        except ServiceError as error:
            if error.status == 412:
                raise _exists(_name(key)) from None
            error.missing_bucket = error.status == 404
            raise


def _name(key: str) -> str:
    """What the user calls the object, or the folder that it marks."""
    return key.removesuffix("/").rpartition("/")[2]


def _exists(name: str) -> AlreadyExists:
    return already_exists(name)
