"""Requests to one bucket by the SDK's client."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache, partial
from time import monotonic
from typing import Any, TypeVar
from zlib import crc32

from aiobotocore.config import AioConfig
from aiobotocore.credentials import AioAssumeRoleCredentialFetcher, AioDeferredRefreshableCredentials
from aiobotocore.httpsession import AIOHTTPSession
from aiobotocore.session import AioSession
from aiobotocore.utils import _RefCountedSessionMixin
from botocore.exceptions import ClientError, HTTPClientError, ReadTimeoutError
from botocore.handlers import _handle_200_error, add_expect_header
from botocore.loaders import create_loader
from botocore.utils import get_environ_proxies

from portico.model.errors import NotFound, PorticoError, service_refused
from portico.model.paths import RESERVED_PREFIX
from portico.providers.contract.provider import TIMEOUT_SECONDS
from portico.providers.contract.uploads import NoUploadLog, UploadLog
from portico.providers.multipart.parts import MIB, UploadPart
from portico.providers.s3.conditions import ALL, NONE, Conditions, Honored
from portico.providers.s3.errors import ERROR_IN_SUCCESS, translated
from portico.providers.wire import transport
from portico.providers.wire.responses import malformed_response

_YIELD_BYTES = 4 * MIB
"""Bytes that are hashed before the event loop runs other tasks."""


class Body:
    """A file to the SDK, and a stream to the transport. It can be sent again."""

    def __init__(self, part: UploadPart, progress: Callable[[], None]) -> None:
        self._chunks = part.chunks
        self._size = part.size
        self._progress = progress
        self._next = 0

    def __len__(self) -> int:
        return self._size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            self._progress()
            yield chunk
        self._progress()

    # The SDK uses these to sign the body without TLS. A position is the index of a chunk.

    def read(self, _: int = -1) -> bytes:
        while self._next < len(self._chunks):
            self._next += 1
            if chunk := self._chunks[self._next - 1]:
                return chunk
        return b""

    def tell(self) -> int:
        return self._next

    def seek(self, position: int, _: int = 0) -> int:
        self._next = position
        return position


async def checksum(part: UploadPart) -> str:
    """The CRC-32 in base64, as the service expects it."""
    value = hashed = 0
    for chunk in part.chunks:
        value = crc32(chunk, value)
        hashed += len(chunk)
        if hashed >= _YIELD_BYTES:
            hashed = 0
            await asyncio.sleep(0)
    return b64encode(value.to_bytes(4, "big")).decode()


class BoundedSession(AIOHTTPSession):  # type: ignore[misc]
    """The SDK's session with bounded responses."""

    async def _get_session(self, proxy_url: str | None) -> Any:
        if proxy_url not in self._sessions:
            async with self._sessions_lock:
                if proxy_url not in self._sessions:
                    session = transport.session(
                        connector=await self._create_connector(proxy_url),
                        timeout=self._timeout,
                        skip_auto_headers={"Content-Type"},
                    )
                    self._sessions[proxy_url] = await self._exit_stack.enter_async_context(session)
        return self._sessions[proxy_url]

    async def send(self, request: Any) -> Any:
        try:
            return await super().send(request)
        except HTTPClientError as error:
            cause = error.kwargs.get("error")
            if isinstance(cause, PorticoError):
                raise cause from None
            raise


class ServiceSession(BoundedSession):
    """For calls to a service. A read timeout is not retried: the client has waited long enough."""

    async def send(self, request: Any) -> Any:
        try:
            return await super().send(request)
        except ReadTimeoutError as error:
            raise TimeoutError from error


class MetadataSession(_RefCountedSessionMixin, BoundedSession):  # type: ignore[misc]
    """For the metadata of a machine or container, including its credentials."""


def bound_sources(session: AioSession) -> None:
    """Replace the sessions that the SDK makes for credential sources that are not services."""
    sources = session.get_component("credential_provider")
    machine = sources.get_provider("iam-role")._role_fetcher
    proxies = get_environ_proxies(machine._base_url)
    machine._session = MetadataSession(timeout=machine._timeout, proxies=proxies)
    container = sources.get_provider("container-role")._fetcher
    container._session = MetadataSession(timeout=container.TIMEOUT_SECONDS)


T = TypeVar("T")

LISTING = "ListObjectsV2"
RAW = "RawBody"
"""The key of a listing's unparsed body in its response."""
_WORK_FACTOR = 20
"""Work of the service itself, such as a copy, may take the timeout multiplied by this."""
_MAX_TAGS = 16_384
"""In a response that the SDK parses, which is slow."""

_DEFAULT_REGION = "us-east-1"
_ATTEMPTS = 4
_CONNECTIONS = 256
_AMAZON = (".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu")


class _Failure:
    """The error of the last attempt of a call; None once the next one is sent."""

    error: Exception | None = None


_LAST_FAILURE: ContextVar[_Failure | None] = ContextVar("last_failure", default=None)
"""Of the current call: the SDK's events do not identify it."""


class Service:
    """One bucket. The client is opened on first use."""

    def __init__(
        self,
        bucket: str,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        role_arn: str | None = None,
        profile: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        upload_log: UploadLog | None = None,
        tries_conditions: bool = False,
    ) -> None:
        """`tries_conditions`: find out which conditions a service other than Amazon's honors, by objects of the gateway's own."""
        if bool(access_key_id) != bool(secret_access_key):
            raise service_refused("only one of access-key-id and secret-access-key is set: give both or neither")
        self.bucket = bucket
        self.upload_log: UploadLog = upload_log or NoUploadLog()
        self._conditions = Conditions(bucket, self.call) if tries_conditions else None
        self.timeout = timeout
        """Seconds for a call with all its attempts, or without progress while content is transferred."""
        self._region = region
        self.endpoint_url = endpoint_url
        self._date: tuple[str, float] | None = None
        """The date of the last response, and when it arrived."""
        self._keys = (access_key_id, secret_access_key) if access_key_id else None
        self._role_arn = role_arn
        self._profile = profile
        self._client: Any = None
        self._opening = asyncio.Lock()
        self._finishing: set[asyncio.Task[Any]] = set()

    @property
    def is_amazon(self) -> bool:
        """Whether this is Amazon's own service, which implements all that it documents."""
        return str(self._client.meta.endpoint_url).rpartition("//")[2].split("/")[0].endswith(_AMAZON)

    async def honored(self) -> Honored:
        """The conditions on which a change may rely."""
        await self.open()
        if self.is_amazon:
            return ALL
        return self._conditions.honored() if self._conditions else NONE

    async def open(self) -> Any:
        if self._client is None:
            async with self._opening:
                if self._client is None:
                    with translated(bucket=self.bucket):
                        try:
                            self._client = await self._create()
                        except ValueError as error:
                            raise service_refused("endpoint-url is not a URL: write it as https://HOST") from error
        return self._client

    async def call(
        self, operation: str, *, within: Any = 0, at_most: Any = transport.MAX_RESPONSE_BYTES, **parameters: Any
    ) -> dict[str, Any]:
        """One call, retried by the SDK if that is safe. Errors are those of `portico.model.errors`.

        `within`: seconds for the whole call; 0 for the usual timeout, None if the caller has its own. `at_most`: the
        largest response, in bytes.
        """
        with translated(parameters.get("Key", ""), self.bucket), transport.at_most(at_most):
            failure = _Failure()
            before = _LAST_FAILURE.set(failure)
            try:
                async with asyncio.timeout(self.timeout if within == 0 else within):
                    client = await self.open()
                    response: dict[str, Any] = await getattr(client, operation)(Bucket=self.bucket, **parameters)
                    self._note_date(response)
                    return response
            except ClientError as error:
                self._note_date(error.response)
                raise
            except TimeoutError:
                if failure.error is None:
                    raise
                raise failure.error from None
            finally:
                _LAST_FAILURE.reset(before)

    def _note_date(self, response: Any) -> None:
        if date := response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date"):
            self._date = date, monotonic()

    async def now(self) -> datetime:
        """The time by the service's clock."""
        if self._date is None:
            with suppress(PorticoError):  # any response has the date, even a refusal
                await self.head(f"{RESERVED_PREFIX}uploads/clock")
        date, arrived = self._date or ("", 0.0)
        try:
            moment = parsedate_to_datetime(date) + timedelta(seconds=monotonic() - arrived)
        except (ValueError, OverflowError):
            return datetime.now(UTC)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    async def head(self, key: str, *, within: float = 0, version_id: str | None = None) -> dict[str, Any] | None:
        """The metadata of an object; None if it does not exist. `within`: as of `call`."""
        version = {} if version_id is None else {"VersionId": version_id}
        try:
            return await self.call("head_object", within=within, Key=key, **version)
        except NotFound:
            return None

    async def work(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """A call for which the service itself moves content."""
        return await self.call(operation, within=_WORK_FACTOR * self.timeout, **parameters)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work to its end, even if the caller is cancelled."""
        task = asyncio.ensure_future(work)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        if self._conditions:
            await self._conditions.close()
        if self._finishing:
            await asyncio.wait(self._finishing)
        if self._client is not None:
            await self._client.__aexit__(None, None, None)
            self._client = None

    async def _create(self) -> Any:
        session = self._session()
        # The service's description is a megabyte of JSON, too much for the event loop.
        await asyncio.to_thread(session.warm_up_loader_caches, "s3")
        if self._keys:
            session.set_credentials(*self._keys)
        region = self._region or session.get_config_variable("region") or _DEFAULT_REGION
        if self._role_arn:
            session._credentials = await self._role_credentials(session, self._role_arn, region)
        client = await session.create_client(
            "s3", region_name=region, endpoint_url=self.endpoint_url, config=self._config()
        ).__aenter__()
        _adapt(client.meta.events)
        return client

    def _session(self) -> AioSession:
        session = AioSession(profile=self._profile)
        session.register_component("data_loader", _sdk_descriptions())
        # Also for the clients by which the SDK gets credentials. Other modes would ask the machine for its region.
        session.set_default_client_config(AioConfig(http_session_cls=ServiceSession, defaults_mode="legacy"))
        bound_sources(session)
        return session

    async def _role_credentials(
        self, session: AioSession, role_arn: str, region: str
    ) -> AioDeferredRefreshableCredentials:
        source = await session.get_credentials()
        if source is None:
            raise service_refused("no credentials were found to assume the role in role-arn")
        fetcher = AioAssumeRoleCredentialFetcher(
            partial(self._session().create_client, region_name=region),
            source,
            role_arn,
            extra_args={"RoleSessionName": "portico"},
        )
        return AioDeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")

    def _config(self) -> AioConfig:
        plain = bool(self.endpoint_url and self.endpoint_url.startswith("http:"))
        return AioConfig(
            connect_timeout=transport.CONNECT_SECONDS,
            read_timeout=self.timeout,
            max_pool_connections=_CONNECTIONS,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            signature_version="s3v4",
            user_agent_extra="portico",
            s3={
                "addressing_style": "path" if self.endpoint_url else "auto",
                # TLS protects the content; without it, signing does.
                "payload_signing_enabled": plain,
            },
        )


@cache
def _sdk_descriptions() -> Any:
    """The SDK's description of its services: read-only data of its package, 12 MiB once it is parsed."""
    return create_loader()


def _adapt(events: Any) -> None:
    events.unregister("before-parse.s3.*", _handle_200_error)
    events.register_first("before-parse.s3", _before_parse)
    # With a service that does not know "Expect", the transport would wait forever.
    events.unregister("before-call.s3", add_expect_header)
    events.register_first("needs-retry.s3", _note_failure)
    events.register_first("before-send.s3", _forget_failure)
    events.register_last("before-parameter-build.s3", _stay_in_region)


def _note_failure(
    operation: Any, response: tuple[Any, dict[str, Any]] | None, caught_exception: Exception | None, **_: Any
) -> None:
    if failure := _LAST_FAILURE.get():
        failure.error = caught_exception
        if response is not None and response[0].status_code >= 300:
            failure.error = ClientError(response[1], operation.name)


def _forget_failure(**_: Any) -> None:
    if failure := _LAST_FAILURE.get():
        failure.error = None


def _before_parse(
    operation_model: Any, response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any
) -> None:
    """Keep a listing's body from the SDK's parser; in other responses look for an error within a success."""
    status = response_dict["status_code"]
    if operation_model.name == LISTING:
        if status == 200:
            customized_response_dict[RAW] = response_dict["body"]
            response_dict["body"] = b""
        return
    if isinstance(response_dict["body"], bytes) and response_dict["body"].count(b"<") > _MAX_TAGS:
        raise malformed_response(f"a response to {operation_model.name} with too many tags")
    _handle_200_error(operation_model, response_dict)
    if response_dict["status_code"] != status:
        customized_response_dict[ERROR_IN_SUCCESS] = True


def _stay_in_region(context: dict[str, Any], **_: Any) -> None:
    """Keep the SDK from searching for the right region at each call; the error tells the administrator instead."""
    context.setdefault("s3_redirect", {})["redirected"] = True
