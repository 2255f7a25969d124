"""The SDK's HTTP sessions with the limits of `transport`: for the service, STS, and credential sources."""

from typing import Any

from aiobotocore.httpsession import AIOHTTPSession
from aiobotocore.session import AioSession
from aiobotocore.utils import _RefCountedSessionMixin
from botocore.exceptions import HTTPClientError, ReadTimeoutError
from botocore.utils import get_environ_proxies

from portico.errors import PorticoError
from portico.providers import transport


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
