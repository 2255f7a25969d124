"""`ConnectionPool`: the providers behind all connections, and from them each Web User's drive."""

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial

import msgspec
import structlog

from portico.accounts.connections import Connection, Connections
from portico.accounts.vault import BadSecretKey
from portico.drive.cursors import CursorSeal
from portico.drive.drive import PATH_DEPTH, Drive
from portico.drive.free_names import NameClaims
from portico.drive.instrumented import InstrumentedProvider
from portico.drive.mount_table import InnerMounts, VirtualFolders
from portico.drive.trash import DriveTrash
from portico.model.errors import (
    FolderUnusable,
    InvalidPath,
    InvalidRequest,
    NotFound,
    PorticoError,
    ProviderFailed,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnavailable,
    Unavailable,
)
from portico.model.paths import TOP, Path, Place
from portico.model.reach import Mount, Reach
from portico.model.rights import DEFAULT_RIGHTS, Right
from portico.observability.metrics import Metrics
from portico.observability.tracing import Tracing
from portico.providers.contract.provider import TIMEOUT_SECONDS, Provider
from portico.providers.contract.registry import PREFIX_OPTION, open_provider
from portico.providers.multipart.memory import MemoryBudget
from portico.runtime.tasks import SingleFlight
from portico.store.leases import Leases
from portico.store.trash import TrashRecords
from portico.store.upload_log import UploadLogs
from portico.store.users import User

_TRUSTED_SECONDS = 1.0
"""How long an open connection is used without checking whether it was changed."""
_SHARED_SECONDS = 0.2
"""How old a shared look-up may be, in seconds."""
SWEEP_TIMEOUT_SECONDS = 300.0
"""How long the sweep of one connection may take; the next one goes on with what is left."""
_SWEEPS_AT_ONCE = 8
CHECK_TIMEOUT_SECONDS = 3.0
"""How long a look at a folder may take."""
_RETIRED_SECONDS = 24 * 3600.0
"""How long a replaced provider may go on with the uploads that it has."""

_UNUSABLE = (ProviderRefused, ProviderFailed, ProviderUnavailable, ProviderTimeout)

log = structlog.get_logger()


_SWEEPS = {
    "sweep-failed": "connections",
    "changes-not-settled": "changes",
    "digests-not-swept": "digests",
    "uploads-not-swept": "uploads",
    "upload-not-swept": "uploads",
    "trash-not-swept": "trash",
}
"""The sweep that each event is about, as the metrics call it."""


class StorageUnusable(Unavailable):
    """No connection works on this machine. The detail is for the administrator."""


class _Opened(msgspec.Struct):
    provider: InstrumentedProvider
    prefix: Path
    revision: int
    trusted_until: float
    claims: NameClaims


class ConnectionPool:
    """Providers are opened on first use, shared by all, replaced when their connection changes, and closed once."""

    def __init__(
        self,
        connections: Connections,
        seal: CursorSeal,
        metrics: Metrics,
        leases: Leases,
        *,
        timeout: float = TIMEOUT_SECONDS,
        memory: MemoryBudget | None = None,
        path_depth: int = PATH_DEPTH,
        tracing: Tracing | None = None,
        upload_logs: UploadLogs | None = None,
        trash: TrashRecords | None = None,
        trash_retention: timedelta = timedelta(0),
        trash_hold: timedelta = timedelta(0),
    ) -> None:
        """`timeout`, `memory`: as `open_provider` takes them. `leases`: shared with other workers and nodes."""
        self._trash = trash
        self._trash_retention = trash_retention
        self._trash_hold = trash_hold
        self._connections = connections
        self._timeout = timeout
        self._memory = memory or MemoryBudget()
        self._path_depth = path_depth
        self._tracing = tracing
        self._upload_logs = upload_logs
        self._metrics = metrics
        self._leases = leases
        self._seal = seal
        self._opened: dict[str, _Opened] = {}
        self._opening: SingleFlight[str, _Opened] = SingleFlight(_SHARED_SECONDS)
        self._checking: SingleFlight[tuple[str, int, bool], None] = SingleFlight()
        self._retired: list[tuple[float, Provider]] = []
        self._usable: dict[str, bool] = {}
        self._spaces: dict[str, tuple[int, int]] = {}
        self._bugs: dict[str, str] = {}
        """What was logged of connections that fail in a way that nobody has foreseen."""
        self._not_swept: dict[tuple[str, str], tuple[str, str | None]] = {}
        """What was logged last of connections that could not be swept, by each event."""

    async def of(self, user: User, mount: Mount | None = None) -> Drive:
        """The drive of one of the user's mounts; without one, that of the top of the tree."""
        mount = mount or user.reach.at(TOP)
        return await self._drive(mount, user.name, user.reach) if mount else self.virtual(user)

    async def of_connection(self, name: str) -> Drive:
        return await self._drive(Mount(Path(), Place(name, Path()), DEFAULT_RIGHTS))

    def virtual(self, user: User) -> Drive:
        """The folders above the user's mounts."""
        folders = VirtualFolders(user.reach)
        drive = Drive(folders, Path(), {Right.LIST, Right.DOWNLOAD}, self._seal)
        drive.right_missing = folders.refusal
        return drive

    async def key(self, place: Place) -> tuple[str, ...]:
        """The same for all connections that lead to a place: see `Provider.key`."""
        opened = await self._open(place.connection)
        return opened.provider.key(place.path.under(opened.prefix))

    async def ignores_case(self, mount: Mount) -> bool:
        """Whether a mount's storage ignores case."""
        return await (await self._open(mount.place.connection)).provider.ignores_case()

    async def names(self) -> Collection[str]:
        return list(await self._connections.revisions())

    async def _drive(self, mount: Mount, user: str | None = None, reach: Reach | None = None) -> Drive:
        connection = mount.place.connection
        opened = await self._open(connection)
        root = mount.place.path.under(opened.prefix)
        trash = inner = None
        if reach and any(reach.below(mount.path)):
            inner = InnerMounts(reach, mount, ignores_case=await opened.provider.ignores_case())
        if self._trash:
            trash = partial(
                DriveTrash,
                opened.provider,
                self._trash,
                self._leases,
                connection,
                prefix=opened.prefix,
                root=root,
                point=mount.path,
                user=user,
                keep=self._trash_retention,
                hold=self._trash_hold,
            )
        return Drive(
            opened.provider,
            root,
            mount.rights,
            self._seal,
            point=mount.path,
            inner=inner,
            connection=connection,
            path_depth=self._path_depth,
            claims=opened.claims,
            trash=trash,
        )

    async def check(self) -> None:
        """`StorageUnusable` if no connection of any user works here because folders are missing.

        A folder that cannot be written does not work if some of its users may upload. `Unavailable` if the database is
        down, so that nobody knows.
        """
        in_use = await self._connections.in_use()
        checks = (self._check(name, writable=Right.UPLOAD in rights) for name, rights in in_use.items())
        errors = dict(zip(in_use, await asyncio.gather(*checks), strict=True))
        # A connection that cannot work takes down nobody who uses another one. One that cannot even be opened is an
        # administrator's mistake, which is the same on every node.
        refused = {name: error for name, error in errors.items() if error and not isinstance(error, ProviderRefused)}
        if refused and all(errors.values()):
            raise StorageUnusable(
                " ".join(_sentence(name, error) for name, error in refused.items()),
                retry_after=max(error.retry_after or 1 for error in refused.values()),
                cause="; ".join(f"connection {name!r}: {error.cause}" for name, error in refused.items()),
            )

    async def _check(self, name: str, *, writable: bool) -> PorticoError | None:
        """What prevents this machine from using a connection; `Unavailable` if the database does not say."""
        opened, problem = None, None
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
                opened = await self._open(name)
                # A folder that hangs, as on a share whose server is gone, is asked once, however many want to know.
                check = partial(opened.provider.check, writable=writable)
                await self._checking.run((name, opened.revision, writable), check)
        except (*_UNUSABLE, Unavailable) as error:
            if opened is None and isinstance(error, Unavailable):
                raise
            problem = error
        except TimeoutError:
            problem = ProviderTimeout(
                "The storage doesn't respond. Tell your administrator.",
                cause=f"the connection's folder did not respond within {CHECK_TIMEOUT_SECONDS:.0f} s",
            )
        except Exception as error:  # one connection must not prevent a look at the others
            what = repr(error)
            if self._bugs.get(name) != what:  # logged once, not at every look
                log.error("bug", connection=name, exc_info=error)
            self._bugs[name] = what
            return ProviderFailed("The storage failed. Tell your administrator.", cause=what)
        self._bugs.pop(name, None)
        return problem

    @property
    def usable(self) -> Mapping[str, bool]:
        """Which connections worked when `watch` last looked; those that nobody has used yet are left out."""
        return self._usable

    @property
    def spaces(self) -> Mapping[str, tuple[int, int]]:
        """The size and the free space of the disks of connections, when `watch` last looked."""
        return self._spaces

    async def watch(self) -> None:
        """Notice and log which connections work: folders by a look at them, services by the last call to them."""
        in_use = await self._connections.in_use()
        names = await self._connections.revisions()
        looks = (self._look_at(name, writable=Right.UPLOAD in in_use.get(name, ())) for name in names)
        for name, (usable, why) in zip(names, await asyncio.gather(*looks), strict=True):
            before = self._usable.get(name)
            if not usable:
                self._spaces.pop(name, None)
            if usable is None:
                self._usable.pop(name, None)
                continue
            self._usable[name] = usable
            if not usable and before is not False:
                log.warning("connection-down", connection=name, cause=why)
            elif usable and before is False:
                log.info("connection-up-again", connection=name)
        for noted in (self._usable, self._spaces, self._bugs):
            for name in noted.keys() - names.keys():
                del noted[name]
        for key in [key for key in self._not_swept if key[0] not in names]:
            del self._not_swept[key]

    async def _look_at(self, name: str, *, writable: bool) -> tuple[bool | None, str | None]:
        if error := await self._check(name, writable=writable):
            return False, error.cause
        opened = self._opened.get(name)
        if opened is None:
            return None, None
        with suppress(PorticoError, TimeoutError):  # it was there a moment ago; the next look says more
            async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
                if space := await opened.provider.space():
                    self._spaces[name] = space
        return opened.provider.usable, opened.provider.failure

    async def sweep(self) -> None:
        """Remove what broken uploads left in all connections, concurrently: a slow one does not delay the others."""
        names = await self._connections.revisions()
        semaphore = asyncio.Semaphore(_SWEEPS_AT_ONCE)

        async def sweep_in_turn(name: str) -> None:
            async with semaphore:
                await self._sweep(name)

        await asyncio.gather(*(sweep_in_turn(name) for name in names))
        for name in self._opened.keys() - names.keys():
            self._retired.append((time.monotonic(), self._opened.pop(name).provider))
        await self._close_retired(before=time.monotonic() - _RETIRED_SECONDS)

    async def _sweep(self, name: str) -> None:
        try:
            async with asyncio.timeout(SWEEP_TIMEOUT_SECONDS), self._leases.held(f"sweep-of:{name}") as mine:
                if mine:
                    if swept := await (await self._open(name)).provider.sweep():
                        log.info("swept", connection=name, left_over=swept)
                    self.swept(name, "sweep-failed")
        except PorticoError as error:
            self.not_swept(name, "sweep-failed", error)
        except TimeoutError:
            late = f"not over after {SWEEP_TIMEOUT_SECONDS:.0f} s"
            self.not_swept(name, "sweep-failed", ProviderTimeout("The clean-up took too long.", cause=late))
        except Exception as error:
            log.error("bug", connection=name, exc_info=error)

    def not_swept(self, name: str, event: str, error: PorticoError) -> None:
        """Count it, and log why a connection was not swept, unless it is why that sweep failed the last time."""
        self._metrics.failed_sweeps.add((_SWEEPS[event],))
        what = error.code, error.cause
        if self._not_swept.get((name, event)) != what:
            log.warning(event, connection=name, code=error.code, cause=error.cause)
        self._not_swept[name, event] = what

    def swept(self, name: str, event: str) -> None:
        """The sweep whose failures are logged as `event` was successful: its next failure is logged again."""
        self._not_swept.pop((name, event), None)

    async def close(self) -> None:
        await self._checking.cancel()
        await self._opening.cancel()
        for opened in self._opened.values():
            await opened.provider.close()
        self._opened.clear()
        await self._close_retired(before=float("inf"))

    async def _open(self, name: str) -> _Opened:
        opened = self._opened.get(name)
        if opened and time.monotonic() < opened.trusted_until:
            return opened
        return await self._opening.run(name, lambda: self._refresh(name))

    async def _refresh(self, name: str) -> _Opened:
        now = time.monotonic()
        try:
            connection = await self._connections.get(name)
        except (NotFound, BadSecretKey) as error:
            raise _not_set_up(name, error) from error
        opened = self._opened.get(name)
        if opened is None or opened.revision != connection.revision:
            if opened:  # before the new one is tried, which may fail again and again
                self._retired.append((now, self._opened.pop(name).provider))
            try:
                opened = self._opened[name] = self._open_provider(connection)
            except (InvalidRequest, InvalidPath) as error:
                raise _not_set_up(name, error) from error
        await self._expect_volume(opened, connection)
        opened.trusted_until = now + _TRUSTED_SECONDS
        return opened

    def _open_provider(self, connection: Connection) -> _Opened:
        options = connection.options | connection.secrets
        upload_log = self._upload_logs.of(connection.name) if self._upload_logs else None
        provider = InstrumentedProvider(
            open_provider(connection.kind, options, self._timeout, self._memory, upload_log),
            connection.name,
            self._metrics,
            self._tracing,
        )
        return _Opened(
            provider,
            prefix_of(connection),
            connection.revision,
            trusted_until=0.0,
            claims=NameClaims(connection.name, self._leases),
        )

    async def _expect_volume(self, opened: _Opened, connection: Connection) -> None:
        """The first gateway that can use the storage of a connection without a volume id decides which it is."""
        expected = connection.volume_id
        if expected is None:
            with suppress(PorticoError):  # it is tried again soon, and the request itself meets what is wrong
                if found := await opened.provider.volume_id():
                    expected = await self._connections.bind(connection.name, connection.revision, found)
        opened.provider.expect_volume(expected)

    async def _close_retired(self, before: float) -> None:
        due = [provider for since, provider in self._retired if since < before]
        self._retired = [(since, provider) for since, provider in self._retired if since >= before]
        for provider in due:
            await provider.close()


def prefix_of(connection: Connection) -> Path:
    """The folder of the storage that is the top of the connection."""
    return Path.parse(connection.options.get(PREFIX_OPTION, ""))


def _sentence(name: str, error: PorticoError) -> str:
    """For those who may ask a node for its faults: without paths, addresses and messages of drivers."""
    if isinstance(error, FolderUnusable):
        return f"The folder of the connection {name!r} {error.problem}."
    if isinstance(error, ProviderTimeout):
        return f"The folder of the connection {name!r} doesn't respond."
    return f"The connection {name!r} can't be used; the log says why."


def _not_set_up(name: str, error: PorticoError) -> ProviderRefused:
    """An administrator's mistake must not look like the user's."""
    return ProviderRefused(
        "Your account has no working storage. Tell your administrator.", cause=f"connection {name!r}: {error.detail}"
    )
