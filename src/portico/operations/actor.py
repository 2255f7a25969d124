"""`RequestContext` and `Actor`: which request this is, and on whose behalf; `AccountCheck`: whether that still holds."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from portico.accounts.guests import Guest
from portico.accounts.sessions import Session, Sessions
from portico.accounts.users import User
from portico.errors import Forbidden, NotSignedIn
from portico.operations.admission import Slot
from portico.operations.idempotency import Attempt
from portico.paths import Path

TRUSTED_SECONDS = 0.2
"""How long a check of the user holds. With the session cache it stays within the second for which a disabled account
may still be served."""


async def _never() -> None:
    await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class KeyInUse:
    """The API key by which a request is made, for logs and audit lines."""

    id: str
    name: str
    folder: str
    """Of the user's tree: the root of all paths."""


@dataclass(slots=True)
class RequestContext:
    """One request, whatever the protocol. A front end makes it and leaves its `with` when the request has ended."""

    request_id: str
    address: str
    """The client's address."""
    client_gone: Callable[[], Awaitable[object]] = _never
    """Returns when the client has hung up. It is called only while long work is under way."""
    action: str = "other"
    """What the request turned out to ask for; the front end counts it by this name."""
    agent: str = ""
    """What the client calls itself: users are shown it with their sessions."""
    user: str | None = None
    """The user's name, as soon as it is known: for the front end's log."""
    key: KeyInUse | None = None
    """If the user acts by an API key."""
    link: str | None = None
    """The id of the share link by which a guest came: `user` is its owner."""
    guest: str | None = None
    """The name that the guest has given."""
    slot: Slot | None = field(default=None, repr=False)
    attempt: Attempt | None = field(default=None, repr=False)
    """If the request has an idempotency key."""

    trashed: Sequence[str] = ()
    """The ids of what the request has put into the trash."""

    def release(self) -> None:
        """Give the admission slot back: the answer begins, or never will."""
        if self.slot is not None:
            self.slot.release()
            self.slot = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.release()


@dataclass(frozen=True, slots=True)
class Actor:
    """A user, with the request and the credential by which the user acts."""

    user: User
    """The credential's owner, with no more of the tree and the rights than the credential gives."""
    context: RequestContext
    checked_at: float
    """When the user was last known to be enabled, by the monotonic clock."""
    session: Session | None = None
    """If the user has signed in: then the credential is an access token, or a ticket made with one."""
    only_file: Path | None = None
    """The one file that this actor may download, and nothing else: see `Authentication.with_ticket`."""
    is_valid: Callable[[], Awaitable[bool]] | None = field(default=None, repr=False)
    """Asks whether the credential can be used still, if it is no session: that is as good as its user."""
    guest: Guest | None = None
    """If somebody acts who has no account: by a share link of the user."""

    @property
    def namespace(self) -> str:
        """Tells those apart who must not see each other's requests: a key and a guest may do less than the owner."""
        if self.guest is not None:
            return f"guest {self.guest.id}"
        key = self.context.key
        return str(self.user.id) if key is None else f"{self.user.id}/{key.id}"

    def require_unrestricted(self) -> None:
        """`Forbidden` for an actor who is limited to one file."""
        if self.only_file is not None:
            by = "A ticket" if self.guest is None else "This link"
            raise Forbidden(f"{by} is valid for the download of one file only.")

    def require_download(self, path: Path) -> None:
        if self.only_file is not None and str(self.only_file) != str(path):
            self.require_unrestricted()

    def require_session(self) -> Session:
        """The session of the sign-in; `Forbidden` without one."""
        if self.session is None:
            raise Forbidden("This needs a sign-in with a password.")
        return self.session


class AccountCheck:
    """Asked before a file is committed: an upload may take long."""

    def __init__(self, sessions: Sessions, actor: Actor) -> None:
        self._sessions = sessions
        self._user = actor.user.id
        self._is_valid = actor.is_valid
        self._checked_at = actor.checked_at

    async def __call__(self) -> None:
        """`NotSignedIn` if the user was disabled, or the credential ended, during the upload."""
        asked_at = time.monotonic()
        if asked_at - self._checked_at < TRUSTED_SECONDS:
            return
        if self._is_valid is not None:
            if not await self._is_valid():
                raise NotSignedIn("The key was ended during the upload; the file was not stored.")
        elif not await self._sessions.is_enabled(self._user):
            raise NotSignedIn("The account was disabled during the upload; the file was not stored.")
        self._checked_at = asked_at
