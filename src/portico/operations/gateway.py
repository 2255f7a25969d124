"""`Gateway`: what a front end works with. `portico.server.composition` opens one from the settings."""

from collections.abc import Callable

import msgspec

from portico.operations.actors.actor import Actor, Authentication
from portico.operations.actors.idempotency import Idempotency
from portico.operations.files.receipts import Receipts
from portico.operations.operations import Operations
from portico.operations.readiness import Readiness
from portico.operations.sharing.guest_sign_in import GuestSignIn
from portico.runtime.fair_scheduling import FairScheduler


class Gateway(msgspec.Struct, frozen=True):
    authentication: Authentication
    operations: Callable[[Actor], Operations]
    """The operations of one actor, for one request."""
    idempotency: Idempotency
    scheduler: FairScheduler
    """A front end waits for its turn with each chunk that it receives or sends."""
    readiness: Readiness
    stop: Callable[[], None]
    """Ends the requests that a client can continue with another worker or node."""
    receipts: Receipts
    guest_sign_in: GuestSignIn
    """How guests open share links."""
    thumbnail_types: frozenset[str]
    """Media types of which this gateway makes thumbnails."""
    keeps_deleted: bool
    """Whether what is deleted or replaced goes to the trash."""
    client_id: str
    client_secret: str
    """Of the OAuth client, equal on all nodes."""
