"""`NodeStatus`: what an operator wants to be warned of in time, for the metrics."""

import asyncio
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import structlog

from portico.accounts.cluster import Cluster
from portico.drive.connection_pool import ConnectionPool
from portico.observability.metrics import Labels, Metrics
from portico.store.database import Database
from portico.store.uploads import count_unfinished

CERTIFICATE = "portico_certificate_expiry_timestamp_seconds"
HOME_SIZE, HOME_FREE = "portico_home_size_bytes", "portico_home_free_bytes"
LAST_BACKUP = "portico_last_backup_timestamp_seconds"
UNFINISHED = "portico_uploads_unfinished"

log = structlog.get_logger()


class NodeStatus:
    """Disks, the certificate, unfinished uploads, backups: looked at by `watch`. What a look cannot find out stays as it was."""

    def __init__(self, database: Database, home: Path, certificate: Path | None) -> None:
        self._database = database
        self._home = home
        self._certificate = certificate
        self._values: dict[str, float] = {}

    def show(self, metrics: Metrics, pool: ConnectionPool) -> None:
        for name in (CERTIFICATE, HOME_SIZE, HOME_FREE, LAST_BACKUP, UNFINISHED):
            metrics.watch_all(name, partial(self._known, name))
        metrics.watch("portico_database_connections_in_use", lambda: self._database.connections[0])
        metrics.watch("portico_database_connections_max", lambda: self._database.connections[1])
        metrics.watch_all("portico_storage_size_bytes", partial(_spaces, pool, 0))
        metrics.watch_all("portico_storage_free_bytes", partial(_spaces, pool, 1))

    def _known(self, name: str) -> list[tuple[Labels, float]]:
        return [((), self._values[name])] if name in self._values else []

    async def watch(self) -> None:
        await asyncio.to_thread(self._look_at_files)
        self._values |= {
            UNFINISHED: await count_unfinished(self._database),
            LAST_BACKUP: await Cluster(self._database).last_backup(),
        }

    def _look_at_files(self) -> None:
        try:
            usage = shutil.disk_usage(self._home)
            self._values |= {HOME_SIZE: usage.total, HOME_FREE: usage.free}
            if self._certificate:
                from cryptography import x509  # only with TLS

                certificate = x509.load_pem_x509_certificates(self._certificate.read_bytes())[0]
                self._values[CERTIFICATE] = certificate.not_valid_after_utc.timestamp()
        except (OSError, ValueError) as error:  # the server reports a certificate that cannot be used
            log.warning("status-not-known", why=str(error))


def _spaces(pool: ConnectionPool, index: int) -> Iterator[tuple[Labels, float]]:
    for connection, space in pool.spaces.items():
        yield (connection,), space[index]
