"""One bucket, and the SDK's client that speaks to it."""

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from aiobotocore.config import AioConfig
from aiobotocore.credentials import AioAssumeRoleCredentialFetcher, AioDeferredRefreshableCredentials
from aiobotocore.session import AioSession
from botocore.exceptions import ClientError
from botocore.handlers import _handle_200_error, add_expect_header
from botocore.loaders import create_loader

from portico.providers import transport
from portico.providers.answers import nonsense
from portico.providers.s3.faults import ERROR_IN_SUCCESS, refused, translated
from portico.providers.s3.sessions import ServiceSession, bound_sources

T = TypeVar("T")

LISTING = "ListObjectsV2"
RAW = "RawBody"
"""Where a listing's answer holds its untouched body."""
PATIENCE = 20
"""How many times the deadline the service's own work may take, such as a copy, as long as it is not silent."""
_MOST_TAGS = 16_384
"""In an answer that the SDK reads, which takes its time for each."""

_DEFAULT_REGION = "us-east-1"
_DESCRIPTIONS = create_loader()
"""Of services, as the SDK has them: read once for all connections."""
_ATTEMPTS = 4
_CONNECTIONS = 256
_AMAZON = (".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu")


class _Failure:
    """By what the last attempt of a call failed; None as soon as the next one goes out."""

    error: Exception | None = None


_LAST_FAILURE: ContextVar[_Failure | None] = ContextVar("last_failure", default=None)
"""Of the call that is being made: the SDK's events do not tell which one it is."""


class Service:
    """The client is opened on first use, shared by all, and closed once."""

    def __init__(
        self,
        bucket: str,
        *,
        region: str | None,
        endpoint_url: str | None,
        access_key_id: str | None,
        secret_access_key: str | None,
        role_arn: str | None,
        profile: str | None,
        timeout: float,
    ) -> None:
        if bool(access_key_id) != bool(secret_access_key):
            raise refused("access-key-id and secret-access-key belong together: give both or none")
        self.bucket = bucket
        self.timeout = timeout
        """Seconds that a call may take with all its attempts, or be silent where it moves content."""
        self._region = region
        self._endpoint_url = endpoint_url
        self._keys = (access_key_id, secret_access_key) if access_key_id else None
        self._role_arn = role_arn
        self._profile = profile
        self._client: Any = None
        self._opening = asyncio.Lock()
        self._finishing: set[asyncio.Task[Any]] = set()

    @property
    def is_amazon(self) -> bool:
        """Whether this is Amazon's own service, which is known to do all that it documents."""
        return str(self._client.meta.endpoint_url).rpartition("//")[2].split("/")[0].endswith(_AMAZON)

    async def open(self) -> Any:
        if self._client is None:
            async with self._opening:
                if self._client is None:
                    with translated(bucket=self.bucket):
                        try:
                            self._client = await self._create()
                        except ValueError as error:
                            raise refused("endpoint-url is not a URL: write it as https://HOST") from error
        return self._client

    async def call(
        self,
        operation: str,
        *,
        within: Any = 0,
        at_most: Any = transport.LARGEST_ANSWER,
        **parameters: Any,
    ) -> dict[str, Any]:
        """One call to the service, repeated by the SDK where that is safe; its failures are ours.

        `within`: seconds for all of it; 0 for the usual, None where the caller watches over it. `at_most`: bytes of
        the answer.
        """
        with translated(parameters.get("Key", ""), self.bucket), transport.at_most(at_most):
            failure = _Failure()
            before = _LAST_FAILURE.set(failure)
            try:
                async with asyncio.timeout(self.timeout if within == 0 else within):
                    client = await self.open()
                    answer: dict[str, Any] = await getattr(client, operation)(
                        Bucket=self.bucket, **parameters
                    )
                    return answer
            except TimeoutError:
                if failure.error is None:
                    raise
                raise failure.error from None
            finally:
                _LAST_FAILURE.reset(before)

    async def work(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """A call that makes the service itself move content."""
        return await self.call(operation, within=PATIENCE * self.timeout, **parameters)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Do what must be done to its end, even if whoever waits for it is cancelled."""
        task = asyncio.ensure_future(work)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        if self._finishing:
            await asyncio.wait(self._finishing)
        if self._client is not None:
            await self._client.__aexit__(None, None, None)
            self._client = None

    async def _create(self) -> Any:
        session = self._session()
        # The service's description is a megabyte of JSON: not for the event loop.
        await asyncio.to_thread(session.warm_up_loader_caches, "s3")
        if self._keys:
            session.set_credentials(*self._keys)
        region = self._region or session.get_config_variable("region") or _DEFAULT_REGION
        if self._role_arn:
            session._credentials = await self._role_credentials(session, self._role_arn, region)
        client = await session.create_client(
            "s3", region_name=region, endpoint_url=self._endpoint_url, config=self._config()
        ).__aenter__()
        _shape(client.meta.events)
        return client

    def _session(self) -> AioSession:
        session = AioSession(profile=self._profile)
        session.register_component("data_loader", _DESCRIPTIONS)
        # For the clients too that the SDK makes to get credentials. Its other modes would ask the machine for a region.
        session.set_default_client_config(AioConfig(http_session_cls=ServiceSession, defaults_mode="legacy"))
        bound_sources(session)
        return session

    async def _role_credentials(
        self, session: AioSession, role_arn: str, region: str
    ) -> AioDeferredRefreshableCredentials:
        source = await session.get_credentials()
        if source is None:
            raise refused("no credentials were found with which the role of role-arn could be assumed")
        fetcher = AioAssumeRoleCredentialFetcher(
            partial(self._session().create_client, region_name=region),
            source,
            role_arn,
            extra_args={"RoleSessionName": "portico"},
        )
        return AioDeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")

    def _config(self) -> AioConfig:
        plain = bool(self._endpoint_url and self._endpoint_url.startswith("http:"))
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
                "addressing_style": "path" if self._endpoint_url else "auto",
                # TLS keeps content whole on its way; without it, signing what is sent does.
                "payload_signing_enabled": plain,
            },
        )


def _shape(events: Any) -> None:
    """Make the client do what we need and no more."""
    events.unregister("before-parse.s3.*", _handle_200_error)
    events.register_first("before-parse.s3", _before_parse)
    # A service that does not know "Expect" would keep the transport waiting for ever.
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
    """Keep a listing's body from the SDK's reader; elsewhere look for an error in what seems a success."""
    status = response_dict["status_code"]
    if operation_model.name == LISTING:
        if status == 200:
            customized_response_dict[RAW] = response_dict["body"]
            response_dict["body"] = b""
        return
    if isinstance(response_dict["body"], bytes) and response_dict["body"].count(b"<") > _MOST_TAGS:
        raise nonsense(f"an answer to {operation_model.name} with more tags than can be meant")
    _handle_200_error(operation_model, response_dict)
    if response_dict["status_code"] != status:
        customized_response_dict[ERROR_IN_SUCCESS] = True


def _stay_in_region(context: dict[str, Any], **_: Any) -> None:
    """The SDK would look for the right region at each call; it is said once, to the administrator, instead."""
    context.setdefault("s3_redirect", {})["redirected"] = True
