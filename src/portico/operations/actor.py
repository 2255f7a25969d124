"""`Actor`: on whose behalf a request is made. `Authentication`: from credentials to an actor, and out again.

`AccountCheck`: whether the actor may still act when a file is committed.
"""

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import msgspec

from portico.accounts.api_keys import ApiKeys, UnknownKey
from portico.accounts.credentials import resembles_guest_token, resembles_key
from portico.accounts.devices import LIFETIME as DEVICE_LIFETIME
from portico.accounts.guests import Guest, Guests
from portico.accounts.invitations import Invitation, Invitations, UnknownInvitation
from portico.accounts.names import name_key
from portico.accounts.sessions import Session, Sessions, TokenPair
from portico.accounts.signin import SignedIn, SignIn
from portico.accounts.throttle import network_of
from portico.accounts.tickets import Tickets
from portico.accounts.users import User
from portico.audit import DONE, AuditTrail
from portico.drive import RIGHT_MISSING
from portico.errors import Forbidden, NotSignedIn, PorticoError, Unavailable, WrongPassword
from portico.fair_turns import Keys
from portico.metrics import Metrics
from portico.operations.auditing import Change
from portico.operations.request_context import KeyInUse, RequestContext
from portico.paths import Path

__all__ = ["DEVICE_LIFETIME", "AccountCheck", "Actor", "Authentication", "SignedIn", "TokenPair"]

TRUSTED_SECONDS = 0.2
"""How long a check of the user holds. With the session cache it stays within the second for which a disabled account
may still be served."""


class Actor(msgspec.Struct, frozen=True):
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
    is_valid: Callable[[], Awaitable[bool]] | None = None
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

    @property
    def share(self) -> Keys:
        """Who shares a turn with whom: a user with all credentials; a link's guests from one address, within their link."""
        if self.guest is None:
            return (self.user.id,)
        link = self.guest.link.id
        return ((link, network_of(self.context.address)), link)

    @property
    def right_missing(self) -> str:
        """What is answered if a right is missing: in words for a guest, a key, or a user."""
        if self.guest is not None:
            return "This link does not give the right '{}'; ask where you got it."
        if self.context.key is not None:
            return "This key does not give the right '{}', or its owner lacks it; use another key."
        return RIGHT_MISSING

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


class Authentication:
    def __init__(
        self,
        sign_in: SignIn,
        sessions: Sessions,
        tickets: Tickets,
        keys: ApiKeys,
        invitations: Invitations,
        guests: Guests,
        audit: AuditTrail,
        metrics: Metrics,
    ) -> None:
        self._sign_in = sign_in
        self._sessions = sessions
        self._tickets = tickets
        self._keys = keys
        self._invitations = invitations
        self._guests = guests
        self._audit = audit
        self._metrics = metrics

    async def sign_in(
        self, context: RequestContext, username: str, password: str, device: str = ""
    ) -> SignedIn:
        """As `SignIn.with_password`. A success and a wrong password are audited."""
        context.action = "sign-in"
        if name_key(username):  # anything else may be a password in the wrong field
            context.user = username
        outcome = "interrupted"
        try:
            signed_in = await self._sign_in.with_password(
                username, password, context.address, device, context.agent
            )
            outcome = DONE
            return signed_in
        except PorticoError as error:
            outcome = error.code
            raise
        finally:
            try:
                # A throttled attempt has no line: otherwise a flood of them could fill the disk.
                if outcome in (DONE, WrongPassword.code):
                    await self._audit.record(context.audit_line("sign-in", outcome=outcome))
            except Unavailable as error:
                outcome = error.code
                raise
            finally:
                self._metrics.sign_ins.add((outcome,))

    async def refresh(self, context: RequestContext, refresh_token: str) -> TokenPair:
        """As `Sessions.refresh`, audited. An unknown token counts as a failed attempt of the client's address."""
        context.action = "refresh"
        async with AsyncExitStack() as stack:

            async def begin(user: str) -> None:
                """Before the token is used up, but not before its user is known: an unknown token has no line."""
                context.user = user
                change = Change(self._audit, context, "refresh")
                await change.begin()
                await stack.enter_async_context(change)

            try:
                return await self._sessions.refresh(refresh_token, begin=begin, address=context.address)
            except NotSignedIn:
                if context.user is None:
                    await self._sign_in.credential_failed(context.address)
                raise

    async def with_token(self, context: RequestContext, access_token: str) -> Actor:
        """The actor behind an access token, an API key, or the token of a guest.

        `NotSignedIn` if it is unknown, expired or revoked.
        """
        if resembles_key(access_token):
            return await self.with_key(context, access_token)
        asked_at = time.monotonic()
        if resembles_guest_token(access_token):
            return _guest(context, asked_at, await self._guests.guest(access_token))
        session = await self._sessions.session(access_token)
        context.user = session.user.name
        return Actor(session.user, context, asked_at, session)

    async def with_key(self, context: RequestContext, key: str, username: str = "") -> Actor:
        """The actor behind an API key. An unknown key counts as a failed attempt of the client's address."""
        asked_at = time.monotonic()
        try:
            use = await self._keys.use(key, context.address, username)
        except UnknownKey:
            await self._sign_in.credential_failed(context.address)
            raise
        context.user = use.owner.name
        context.key = KeyInUse(use.key.id, use.key.name, str(use.key.folder))
        return Actor(use.user, context, asked_at, is_valid=partial(self._keys.is_valid, use.digest))

    async def with_ticket(self, context: RequestContext, ticket: str, path: Path) -> Actor:
        """The actor behind a ticket for `path`, who may download that file and do nothing else."""
        context.ticket = True
        asked_at = time.monotonic()
        if resembles_guest_token(ticket):
            return _guest(context, asked_at, await self._guests.redeem(ticket, str(path)), only_file=path)
        session = await self._tickets.redeem(ticket, str(path))
        context.user = session.user.name
        return Actor(session.user, context, asked_at, session, only_file=path)

    async def invitation(self, context: RequestContext, token: str) -> Invitation:
        """What an invitation is for. An unknown one counts as a failed attempt of the client's address."""
        context.action = "invitation"
        try:
            return await self._invitations.find(token)
        except UnknownInvitation:
            await self._sign_in.credential_failed(context.address)
            raise

    async def accept_invitation(self, context: RequestContext, token: str, password: str) -> None:
        """Set the password of the invited user."""
        context.user = (await self.invitation(context, token)).user.name
        async with Change(self._audit, context, "invitation.accept") as change:
            await change.begin()
            await self._invitations.accept(token, password)
        self._sessions.forget()

    async def sign_out(self, actor: Actor) -> None:
        actor.context.action = "sign-out"
        actor.require_unrestricted()
        session = actor.require_session()
        async with Change(self._audit, actor.context, "sign-out") as change:
            await change.begin()
            await self._sessions.end(session)


def _guest(context: RequestContext, asked_at: float, guest: Guest, only_file: Path | None = None) -> Actor:
    context.user = guest.open.owner.name
    context.link = guest.link.id
    context.guest = guest.name
    return Actor(guest.user, context, asked_at, only_file=only_file or guest.only_file, guest=guest)
