"""PostgreSQL, by way of libpq: its URLs, a fixed pool, one round trip per statement.

Statements are not prepared, so that PgBouncer may give each of them another connection.
"""

import asyncio
import re
import select
import socket
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError, DisconnectionError

from portico.model.errors import InvalidRequest, Misconfigured, TableMissing, Unavailable
from portico.runtime.processes import borrowed_socket

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

CONNECTIONS = 10
"""Of one process; the default of the setting `database.max-connections`."""

_NEEDED = "PostgreSQL needs an extra; install it with: pip install 'portico-gateway[postgres]'"
_FULL = re.compile(r"too many (clients|connections)|connection slots are reserved|no more connections allowed")
"""libpq has no code for this, only the server's sentence."""
_FULL_PAUSE_SECONDS = 0.1
_CONFLICTS = frozenset({"40001", "40P01"})
"""Serialization failure, deadlock."""
_BEGIN = "BEGIN; SET LOCAL synchronous_commit TO off"
_COMMIT = "COMMIT"
_COMMIT_AND_WAIT = "COMMIT; SELECT pg_logical_emit_message(true, 'portico', '')"
"""The message is a transaction of its own, in the log behind the other one: when it is durable, so is that one."""
_NOT_PERMITTED = frozenset({"42501", "3F000"})
"""Insufficient privilege; no schema to create in, which is one that may not be used."""
_MISSING = frozenset({"42P01", "42703"})
"""Undefined table, undefined column."""
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_CONNECT_PROBLEMS: tuple[tuple[re.Pattern[str], type[Unavailable] | None, str], ...] = (
    (
        re.compile(r'authentication failed|no password supplied|role "[^"]*" (does not exist|is not perm)'),
        Misconfigured,
        "{} refuses the user or password in database.url",
    ),
    (
        re.compile(r'database "[^"]*" does not exist'),
        Misconfigured,
        "the database {} in database.url does not exist; create it, or correct the name",
    ),
    (
        re.compile(r"no pg_hba\.conf entry|permission denied for database"),
        Misconfigured,
        (
            "the server doesn't allow the user in database.url to connect to {}; check its pg_hba.conf "
            "and the right CONNECT"
        ),
    ),
    (
        re.compile(r"resolve host|translate host name|Name or service not known"),
        None,  # the name server may be down
        "the host in database.url can't be resolved: {}",
    ),
)
"""libpq has no codes for these either."""
_KEEPALIVE = {"keepalives_idle": "15", "keepalives_interval": "5", "keepalives_count": "3"}
_HOST_SECONDS = 2.0
"""How long to wait for one of several hosts."""
_MAX_ROUND_TRIP_SECONDS = 2.0
"""A clock that was read by a slower round trip is not trusted."""


class NotPermitted(Misconfigured):
    """The role lacks a right."""


class Postgres:
    dialect = "postgresql"
    file = None
    advice = "check that it is running, and check the setting database.url"
    snapshot = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
    read_only = "pg_is_in_recovery() OR current_setting('transaction_read_only')::bool"

    def __init__(self, url: str, *, wait: float, connections: int) -> None:
        parameters = parse_url(url)
        self._url = libpq_url(url)
        self._wait = wait
        hosts = len((parameters.get("host") or parameters.get("hostaddr") or "").split(","))
        host_seconds = float(parameters.get("connect_timeout") or (wait if hosts == 1 else _HOST_SECONDS))
        self._connect_seconds = max(wait, hosts * host_seconds + 1)
        defaults = _KEEPALIVE | {"connect_timeout": str(max(2, round(host_seconds)))}
        self._options: dict[str, Any] = {key: value for key, value in defaults.items() if key not in parameters}
        self.name = _name_of(parameters)
        self.queued = 0
        self._reported_full = False
        try:
            self.engine = self._engine(connections)
        except ModuleNotFoundError:
            raise InvalidRequest(_NEEDED) from None

    @asynccontextmanager
    async def reading(self, wait: float) -> "AsyncGenerator[AsyncConnection]":
        """Without a transaction: each statement is one round trip."""
        async with self.engine.connect() as connection:
            # An engine with this option loses its connection if the task is cancelled while the option is set.
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            with _ended_after(wait, await _driver_connection(connection)):
                yield connection

    @asynccontextmanager
    async def autocommit(
        self, wait: float, *, writes: bool, durable: bool
    ) -> AsyncGenerator[Callable[..., Awaitable[Any]]]:
        async with self.reading(wait) as connection:
            yield connection.execute

    @asynccontextmanager
    async def transaction(self, wait: float, *, durable: bool) -> AsyncGenerator[Callable[..., Awaitable[Any]]]:
        """Runs a function as one transaction. Its locks are free before the disk is waited for."""
        async with self.reading(wait) as connection:  # so that the driver adds no round trips
            await connection.exec_driver_sql(_BEGIN)
            yield connection.run_sync
            await connection.exec_driver_sql(_COMMIT_AND_WAIT if durable else _COMMIT)

    @asynccontextmanager
    async def writing(self, wait: float) -> "AsyncGenerator[AsyncConnection]":
        async with self.engine.connect() as connection:
            with _ended_after(wait, await _driver_connection(connection)):
                yield connection

    async def begin(self, connection: "AsyncConnection") -> None:
        """The driver begins a transaction with the first statement."""

    @asynccontextmanager
    async def batch(self, connection: "AsyncConnection") -> AsyncGenerator[None]:
        import psycopg

        driver = await _driver_connection(connection)
        try:
            async with driver.pipeline():
                yield
        except psycopg.Error as error:  # SQLAlchemy did not see it
            raise DBAPIError.instance(
                None, None, error, psycopg.Error, hide_parameters=True, connection_invalidated=driver.closed
            ) from error

    def lacking(self, tables: list[str]) -> tuple[str, str]:
        """SQL for the tables that are missing, and the rights on the others; NULL if there are none."""
        names = f"unnest(string_to_array('{','.join(tables)}', ',')) AS name"
        rights = "unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS need"
        missing = f"(SELECT string_agg(name, ', ') FROM {names} WHERE to_regclass(name) IS NULL)"  # noqa: S608
        refused = "NOT has_table_privilege(to_regclass(name), need)"
        denied = f"(SELECT string_agg(need || ' on ' || name, ', ') FROM {names}, {rights} WHERE {refused})"  # noqa: S608
        return missing, denied

    def problem(self, error: BaseException | None) -> tuple[type[Unavailable] | None, str] | None:
        """What the administrator has to change, in one sentence, and the kind of the error if it is permanent."""
        import psycopg

        if not isinstance(error, psycopg.Error):
            return None
        if error.sqlstate in _NOT_PERMITTED:
            return NotPermitted, (
                f"the role in database.url can't do this ({error.diag.message_primary}): make it "
                "the owner of the database and its tables"
            )
        if error.sqlstate in _MISSING:
            return TableMissing, (
                f"the database {self.name} lacks a table or column of Portico ({error.diag.message_primary}): "
                "run 'portico migrate', or restore a backup"
            )
        if error.sqlstate is None:
            for pattern, kind, sentence in _CONNECT_PROBLEMS:
                if pattern.search(str(error)):
                    return kind, sentence.format(self.name)
        return None

    def why(self, error: BaseException | None) -> str:
        """The driver's message without its hints."""
        return re.sub(r"\n\t[^\n]*", "", str(error)).strip()

    def file_is_writable(self) -> bool:
        return True

    def is_conflict(self, error: DBAPIError) -> bool:
        return getattr(error.orig, "sqlstate", None) in _CONFLICTS

    async def time(self) -> int:
        """Milliseconds since the epoch, by the server's clock."""
        async with self.reading(self._wait) as connection:
            await connection.execute(text("SELECT 1"))  # a first statement may have to connect
            began = time.monotonic()
            there = (await connection.execute(text("SELECT extract(epoch FROM clock_timestamp())"))).scalar_one()
            took = time.monotonic() - began
        if took > _MAX_ROUND_TRIP_SECONDS:
            raise TimeoutError(f"the database's clock took {took:.1f} s to read")
        return round(float(there) * 1000 + took * 500)

    async def close(self) -> None:
        await self.engine.dispose()

    def _engine(self, connections: int) -> "AsyncEngine":
        import psycopg  # noqa: F401
        from sqlalchemy.ext.asyncio import create_async_engine

        engine = create_async_engine(
            "postgresql+psycopg://",
            async_creator=self._connect,
            hide_parameters=True,
            pool_size=connections,
            max_overflow=0,
            pool_timeout=self._wait,
            use_native_hstore=False,
        )
        event.listen(engine.sync_engine, "checkout", _check_open)
        return engine

    async def _connect(self) -> Any:
        """Connect; while the server has no connection to spare, wait for one."""
        import psycopg

        async with asyncio.timeout(self._connect_seconds):
            while True:
                try:
                    connection = await psycopg.AsyncConnection.connect(
                        self._url, prepare_threshold=None, **self._options
                    )
                    self._reported_full = False
                    return connection
                except psycopg.OperationalError as error:
                    if not _FULL.search(str(error)):
                        raise
                    self._report_full(error)
                await asyncio.sleep(_FULL_PAUSE_SECONDS)

    def _report_full(self, error: Exception) -> None:
        """Say once what is waited for: in the log of a gateway, or to the user of a command."""
        import structlog  # slow to import, and rarely needed

        if self._reported_full:
            return
        self._reported_full = True
        cause = f"the database {self.name} has no free connection ({self.why(error)})"
        if structlog.is_configured():
            structlog.get_logger().warning("waiting-for-database", cause=cause)
        else:
            print(f"Waiting: {cause}.", file=sys.stderr, flush=True)


def libpq_url(url: str) -> str:
    """The URL as libpq reads it: without the name of a driver."""
    return re.sub(r"^(\w+)\+\w+://", r"\1://", url)


def parse_url(url: str) -> dict[str, str]:
    """The parameters in a URL; `InvalidRequest` with the reason if libpq does not understand it."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ModuleNotFoundError:
        raise InvalidRequest(_NEEDED) from None
    authority, _, rest = url.partition("://")[2].partition("/")
    hosts = authority.partition("@")[2]
    name, _, query = rest.partition("?")
    if "@" in hosts.partition("?")[0] or ("?" not in hosts and "@" in name):
        raise _unusable(_ESCAPES)
    try:
        parameters = {key: str(value) for key, value in conninfo_to_dict(libpq_url(url)).items()}
    except ProgrammingError as error:
        raise _unusable(_ESCAPES if "@" in query and "@" not in authority else _why(str(error))) from None
    if mistake := _mistake(parameters):
        raise _unusable(mistake)
    return parameters


_ESCAPES = "percent-encode '@' as %40 and '/' as %2F in the user name and password"


def _unusable(why: str) -> InvalidRequest:
    return InvalidRequest(f"The URL in database.url is not valid: {why}.")


def _mistake(parameters: dict[str, str]) -> str | None:
    """What libpq would refuse only when it connects. Values are not quoted: they may be a part of the password."""
    ports = parameters.get("port", "").split(",")
    if not all(not port or (re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536) for port in ports):
        return "the port must be a number from 1 to 65535"
    if parameters.get("sslmode", "prefer") not in _SSL_MODES:
        return f"sslmode must be one of {', '.join(_SSL_MODES)}"
    if not re.fullmatch("-?[0-9]{0,9}", parameters.get("connect_timeout", "")):
        return "connect_timeout must be a number of seconds"
    return None


def _why(message: str) -> str:
    """What libpq says, without what it quotes: that may be the password."""
    if "unexpected spaces" in message:
        return "write a space as %20"
    if "percent-encoded" in message:
        return "a '%' must be followed by two hexadecimal digits; write a '%' in a user name or password as %25"
    if "IPv6" in message:
        return "an IPv6 address must be in brackets, like [::1]"
    if option := re.search(r'invalid URI query parameter: "([a-z_]{1,30})"', message):
        return f"the option {option[1]} doesn't exist; use the options of libpq"
    return message.partition("\n")[0].partition('"')[0].rstrip(": ")


def _name_of(parameters: dict[str, str]) -> str:
    """The database for messages, without user and password."""
    hosts = (parameters.get("host") or parameters.get("hostaddr") or "localhost").split(",")
    ports = (parameters.get("port") or "").split(",")
    if len(ports) < len(hosts):
        ports = ports[:1] * len(hosts)
    places = [f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=False)]
    return f"postgresql://{','.join(places)}/{parameters.get('dbname', '')}"


async def _driver_connection(connection: "AsyncConnection") -> Any:
    return (await connection.get_raw_connection()).driver_connection


def _check_open(connection: Any, _: object, __: object) -> None:
    """Detect a connection that the server has closed, without asking it: an idle one has nothing to read."""
    poll = select.poll()
    try:
        poll.register(connection.driver_connection.pgconn.socket, select.POLLIN)
        gone = bool(poll.poll(0))
    except Exception as error:
        raise DisconnectionError from error
    if gone:
        raise DisconnectionError


@contextmanager
def _ended_after(seconds: float, driver: Any) -> Iterator[None]:
    """Shut the connection down when the time is over: cancelling a query needs a server that responds."""
    over = False

    def end() -> None:
        nonlocal over
        over = True
        with suppress(Exception), borrowed_socket(driver.pgconn.socket) as line:
            line.shutdown(socket.SHUT_RDWR)

    timer = asyncio.get_running_loop().call_later(seconds, end)
    try:
        yield
    except DBAPIError as error:
        if over:  # and not broken: a second try would only take as long again
            raise TimeoutError(f"no answer within {seconds:g} s") from error
        raise
    finally:
        timer.cancel()
