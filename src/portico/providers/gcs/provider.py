"""The provider for a bucket of Google Cloud Storage."""

import re
from urllib.parse import urlsplit

from portico.model.entries import Download, Entry
from portico.model.errors import InvalidPath, InvalidRequest, changed
from portico.providers.contract.provider import TIMEOUT_SECONDS
from portico.providers.gcs.credentials import AccessTokens
from portico.providers.gcs.downloads import open_object
from portico.providers.gcs.errors import ServiceError, translated
from portico.providers.gcs.listing import list_objects
from portico.providers.gcs.service import Request, Service
from portico.providers.gcs.uploads import GcsUpload
from portico.providers.gcs.versions import GcsVersions, copy_object
from portico.providers.multipart.memory import MemoryBudget
from portico.providers.objects.part_store import UploadState
from portico.providers.objects.service import KeyPage, Version, name_of
from portico.providers.objects.versions import VersionedStore
from portico.runtime.tasks import for_each

_ENDPOINT = "https://storage.googleapis.com"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_FORBIDDEN_PREFIX = ".well-known/acme-challenge/"


class GcsProvider(VersionedStore):
    kind = "gcs"
    max_page_size = 1000
    max_file_size = 5 * 2**40
    concurrent_removals = 16

    def __init__(
        self,
        bucket: str,
        service_account_file: str | None = None,
        endpoint_url: str | None = None,
        anonymous: str = "false",
        timeout: float = TIMEOUT_SECONDS,
        memory: MemoryBudget | None = None,
    ) -> None:
        super().__init__(memory)
        _check_options(bucket, service_account_file, endpoint_url, anonymous)
        endpoint = (endpoint_url or _ENDPOINT).rstrip("/")
        self.identity = f"{endpoint}/{bucket}"
        credentials = None if anonymous == "true" else AccessTokens(service_account_file)
        self._service = Service(endpoint, bucket, credentials, timeout)
        self.versions = GcsVersions(self, self._service)

    async def close(self) -> None:
        await self._service.close()

    # Reading

    async def list_keys(self, prefix: str, size: int, token: str | None, *, flat: bool = False) -> KeyPage:
        return await list_objects(self._service, prefix, size, token, flat=flat)

    async def find(self, key: str) -> Entry | None:
        found = await self._service.find(key)
        return found.entry() if found else None

    async def open(self, key: str, start: int, stop: int | None, etag: str | None) -> Download:
        return await open_object(self._service, key, start, stop, etag)

    # Writing

    def part_store(self, state: UploadState) -> GcsUpload:
        if state.key.startswith(_FORBIDDEN_PREFIX):
            raise InvalidPath("The storage reserves the folder '.well-known/acme-challenge'. Choose another one.")
        return GcsUpload(self._service, state)

    async def duplicate(
        self, source: Version, target: str, *, replace: bool, if_match: str | None = None, looked: bool = False
    ) -> None:
        await copy_object(self._service, source, target, replace=replace, if_match=if_match)

    # Removing

    async def remove(self, keys: list[str]) -> None:
        await for_each(self.remove_version, [Version(key, None) for key in keys], self.concurrent_removals)

    async def remove_version(self, version: Version) -> None:
        request = Request("DELETE", self._service.object_url(version.key), {"ifGenerationMatch": version.etag})
        with translated(name_of(version.key)):
            try:
                await self._service.call(request)
            except ServiceError as error:
                if error.status == 412 and version.etag is not None:
                    raise changed(name_of(version.key)) from None
                if error.status != 404 or error.missing_bucket:
                    raise


def _check_options(bucket: str, key_file: str | None, endpoint: str | None, anonymous: str) -> None:
    if not _BUCKET.fullmatch(bucket):
        raise InvalidRequest(
            "The option 'bucket' is not valid; give the bucket's name alone, without 'gs://' and folders."
        )
    if anonymous not in ("true", "false"):
        raise InvalidRequest("The option 'anonymous' must be 'true' or 'false'.")
    if anonymous == "true" and key_file:
        raise InvalidRequest(
            "The options 'anonymous' and 'service-account-file' can't be combined; remove one of them."
        )
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InvalidRequest("The option 'endpoint-url' is not valid; use a URL like http://127.0.0.1:4443.")
