"""`Resources`: what all operations of a worker share."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Protocol

import msgspec

from portico.accounts.guests import Guests
from portico.accounts.passwords import Passwords
from portico.accounts.sessions import Sessions
from portico.accounts.share_links import ShareLinks
from portico.accounts.tickets import Tickets
from portico.drive.connection_pool import Drives
from portico.drive.drive import Drive
from portico.observability.audit import AuditTrail
from portico.operations.actors.actor import Watches
from portico.operations.actors.cancellation import CancellableWork
from portico.operations.actors.request_context import Admission
from portico.operations.files.archives import ArchiveLimits, ArchiveMemory
from portico.operations.files.digests import WantedDigest
from portico.operations.files.receipts import Receipts
from portico.operations.jobs import Jobs
from portico.operations.thumbnails.thumbnails import Thumbnails
from portico.runtime.fair_scheduling import FairScheduler
from portico.store.digests import FileDigests
from portico.store.uploads import Uploads

HELD_AT_ONCE = 16
READ_AHEAD_AT_ONCE = 16


class OpenDrive(Protocol):
    """Opens the drive of the actor. If `admitted`, the request takes a slot among those that wait."""

    def __call__(self, *, admitted: bool = True) -> Awaitable[Drive]: ...


class Resources(msgspec.Struct, frozen=True):
    drives: Drives
    sessions: Sessions
    tickets: Tickets
    links: ShareLinks
    guests: Guests
    passwords: Passwords
    """For those of links."""
    audit: AuditTrail
    admission: Admission
    long_work: CancellableWork
    digests: FileDigests
    receipts: Receipts
    max_file_size: int
    """Bytes; 0 is no limit."""
    archive_limits: ArchiveLimits
    uploads: Uploads
    jobs: Jobs
    upload_lifetime: timedelta
    """After which an unfinished resumable upload is removed."""
    now: Callable[[], int]
    """Milliseconds since the epoch, the same on all nodes."""
    watches: Watches
    """Of work under way."""
    held: asyncio.Semaphore = msgspec.field(default_factory=lambda: asyncio.Semaphore(HELD_AT_ONCE))
    """Of requests that are held in memory until their digest is known."""
    reading_ahead: asyncio.Semaphore = msgspec.field(
        default_factory=lambda: asyncio.Semaphore(READ_AHEAD_AT_ONCE)
    )
    """Of requests whose body is read before it is known what becomes of it."""
    archive_memory: ArchiveMemory = msgspec.field(default_factory=ArchiveMemory)
    scheduler: FairScheduler = msgspec.field(default_factory=FairScheduler)
    thumbnails: Thumbnails | None = None
    """None if this gateway makes none."""
    always_digest: bool = False
    """Whether the SHA-256 of every upload is computed."""

    def wanted(self, asked: WantedDigest) -> WantedDigest:
        """What is done, which may be more than was asked for."""
        return WantedDigest(computed=True, recorded=True) if self.always_digest else asked
