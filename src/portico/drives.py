"""`Drives`: the providers behind all connections, and from them each Web User's drive."""

import time
from dataclasses import dataclass

import structlog

from portico.accounts.connections import Connection, Connections
from portico.accounts.users import User
from portico.cursors import CursorSeal
from portico.drive import Drive
from portico.errors import NotFound, PorticoError, ProviderRefused
from portico.paths import Path
from portico.providers.base import Provider
from portico.providers.registry import PREFIX_OPTION, open_provider

_TRUSTED_SECONDS = 1.0
"""How long a connection is used without asking whether it was changed."""
_RETIRED_SECONDS = 24 * 3600.0
"""How long a replaced provider may go on with the uploads that it has."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Opened:
    provider: Provider
    prefix: Path
    revision: int
    trusted_until: float


class Drives:
    """Providers are opened on first use, shared by all, replaced when their connection changes, and closed once."""

    def __init__(self, connections: Connections, seal: CursorSeal) -> None:
        self._connections = connections
        self._seal = seal
        self._opened: dict[str, _Opened] = {}
        self._retired: list[tuple[float, Provider]] = []

    async def of(self, user: User) -> Drive:
        opened = await self._open(user.connection)
        root = Path.parse(user.root).under(opened.prefix)
        return Drive(opened.provider, root, user.rights, self._seal)

    async def sweep(self) -> None:
        """Remove what broken uploads left in any connection; one that fails does not keep the others from it."""
        for connection in await self._connections.list():
            try:
                opened = await self._open(connection.name)
                if swept := await opened.provider.sweep():
                    log.info("swept", connection=connection.name, left_over=swept)
            except PorticoError as error:
                log.warning("sweep-failed", connection=connection.name, code=error.code, cause=error.cause)
        await self._close_retired(before=time.monotonic() - _RETIRED_SECONDS)

    async def close(self) -> None:
        for opened in self._opened.values():
            await opened.provider.close()
        self._opened.clear()
        await self._close_retired(before=float("inf"))

    async def _open(self, name: str) -> _Opened:
        opened = self._opened.get(name)
        now = time.monotonic()
        if opened and now < opened.trusted_until:
            return opened
        try:
            connection = await self._connections.get(name)
        except NotFound as error:
            raise ProviderRefused(
                "The storage of this account is not set up; tell the administrator.",
                cause=f"there is no connection {name!r}",
            ) from error
        opened = self._opened.get(name)  # another request may have been quicker
        if opened is None or opened.revision != connection.revision:
            if opened:
                self._retired.append((now, opened.provider))
            opened = self._opened[name] = _opened(connection)
        opened.trusted_until = now + _TRUSTED_SECONDS
        return opened

    async def _close_retired(self, before: float) -> None:
        due = [provider for since, provider in self._retired if since < before]
        self._retired = [(since, provider) for since, provider in self._retired if since >= before]
        for provider in due:
            await provider.close()


def _opened(connection: Connection) -> _Opened:
    options = connection.options | connection.secrets
    provider = open_provider(connection.kind, options)
    return _Opened(provider, Path.parse(options.get(PREFIX_OPTION, "")), connection.revision, 0.0)
