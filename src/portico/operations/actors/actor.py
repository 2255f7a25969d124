"""`Actor`: on whose behalf a request is made. `Authentication`: from credentials to an actor, and out again.

`Standing`: whether the actor may still act, before a commit and while work takes long.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Self
from weakref import WeakSet

import msgspec
import structlog

from portico.accounts.api_keys import ApiKeys, UnknownKey
from portico.accounts.credentials import resembles_guest_token, resembles_key
from portico.accounts.guests import Guests, link_ended
from portico.accounts.names import name_key
from portico.accounts.sessions import Sessions, Tickets, TokenPair, check_address
from portico.accounts.sign_in import LIFETIME as DEVICE_LIFETIME
from portico.accounts.sign_in import SignedIn, SignIn
from portico.accounts.throttle import network_of
from portico.accounts.users import Invitation, Invitations, UnknownInvitation
from portico.drive.view import RIGHT_MISSING
from portico.model.entries import Chunks
from portico.model.errors import (
    AccountDisabled,
    AccountExpired,
    AddressNotAllowed,
    Forbidden,
    IsAFolder,
    NotSignedIn,
    PorticoError,
    Unavailable,
    WrongPassword,
)
from portico.model.paths import Path
from portico.model.reach import Reach
from portico.model.rights import Right, missing_word
from portico.observability.audit import DONE
from portico.observability.metrics import Metrics
from portico.operations.actors.auditing import Change
from portico.operations.actors.request_context import KeyInUse, RequestContext
from portico.runtime.fair_turns import Keys
from portico.store.guests import Guest
from portico.store.journal import Journal
from portico.store.sessions import Session
from portico.store.users import User

__all__ = ["DEVICE_LIFETIME", "Actor", "Authentication", "SignedIn", "TokenPair"]

log = structlog.get_logger()

DISABLED, EXPIRED = "disabled", "expired"
"""The outcomes of a sign-in with the right password of an account that may not act."""
TRUSTED_SECONDS = 0.2
"""How long a check of the user is trusted. Together with the session cache, this stays below the one second for which a
disabled account may still be served."""
WATCH_SECONDS = 0.5
"""How often the user of running work is looked up again. Even if the lookup is slow, this stays below that second."""

_OUTCOMES: dict[type[PorticoError], str] = {AccountDisabled: DISABLED, AccountExpired: EXPIRED}
_AUDITED = frozenset({DONE, DISABLED, EXPIRED, WrongPassword.code, AddressNotAllowed.code})

_READING = frozenset({Right.LIST, Right.DOWNLOAD})


class Scope(msgspec.Struct, frozen=True):
    """The one thing that a ticket, or a link to a file, gives access to: a file, or a folder as an archive."""

    path: Path
    is_folder: bool = False


class Actor(msgspec.Struct, frozen=True):
    """A user, with the request and the credential that the user acts with."""

    user: User
    """The credential's owner, limited to the tree and the rights that the credential gives."""
    context: RequestContext
    checked_at: float
    """When the user was last known to be enabled, by the monotonic clock."""
    current_user: Callable[[], Awaitable[User | None]]
    """Looks up `user` without a cache: None if the account is disabled, or its key or link has ended."""
    session: Session | None = None
    """Set if the user has signed in: the credential is an access token, or a ticket made with one."""
    only: Scope | None = None
    """The only thing that this actor may download, if the actor is limited to one."""
    guest: Guest | None = None
    """Set if the actor has no account and came through a share link of the user."""
    by_ticket: bool = False
    """See `Authentication.with_ticket`."""

    @property
    def namespace(self) -> str:
        """Separates actors that must not see each other's requests: a key and a guest may do less than the owner."""
        if self.guest is not None:
            return f"guest {self.guest.id}"
        key = self.context.key
        return str(self.user.id) if key is None else f"{self.user.id}/{key.id}"

    @property
    def share(self) -> Keys:
        """Who shares a turn: all credentials of a user; a link's guests from one address, within their link."""
        if self.guest is None:
            return (self.user.id,)
        link = self.guest.link.id
        return ((link, network_of(self.context.address)), link)

    @property
    def holder(self) -> str:
        """Whose stored responses share one limit: a user with all keys, or the guests of a link from one address."""
        if self.guest is not None:
            return f"link {self.guest.link.id} {network_of(self.context.address)}"[:96]
        return str(self.user.id)

    @property
    def right_missing(self) -> str:
        """The error text for a missing right, worded for a guest, a key or a user."""
        if self.guest is not None:
            return "This link doesn't allow you to {}. Ask the person who sent it to you."
        if self.context.key is not None:
            return "This key or its owner isn't allowed to {} here. Use another key."
        return RIGHT_MISSING

    def require_unrestricted(self) -> None:
        """Raise `Forbidden` for an actor that is limited to one file or folder."""
        self.require_scope(None)

    def require_scope(self, wanted: Scope | None) -> None:
        """Raise `Forbidden` for an actor that is limited to another file or folder; with None, for any limited actor."""
        if self.only is None:
            return
        if wanted == self.only and (wanted.is_folder or not wanted.path.as_folder):
            return
        if wanted and self.only.is_folder and wanted.path == self.only.path:
            raise IsAFolder(f"'{wanted.path.name}' is a folder; with this ticket, you can only download it as a ZIP.")
        what = "a folder as a ZIP" if self.only.is_folder else "one file"
        raise Forbidden(f"{'This ticket' if self.by_ticket else 'This link'} only allows downloading {what}.")

    def require_session(self) -> Session:
        """The session of the sign-in; `Forbidden` without one."""
        if self.session is None:
            raise Forbidden("Only a signed-in session can do this. Sign in with a user name and password.")
        return self.session


class Standing:
    """Whether an actor may still finish its work: the rights that it needs at some paths, and the same places as at the start."""

    def __init__(self, actor: Actor, path: Path, *needed: Right) -> None:
        self.actor = actor
        self._needs = [(path, frozenset(needed))]
        self._checked_at = actor.checked_at

    def also(self, path: Path, *needed: Right) -> Self:
        self._needs.append((path, frozenset(needed)))
        return self

    async def check(self) -> None:
        """Called before a commit: raises if the account, the key or the link no longer has what it needs."""
        asked_at = time.monotonic()
        if self.actor.guest is None and asked_at - self._checked_at < TRUSTED_SECONDS:
            return
        if loss := self.loss(await self.actor.current_user()):
            raise loss
        self._checked_at = asked_at

    def loss(self, now: User | None) -> PorticoError | None:
        """The error that ends the work, given the actor's user as of now; None if it may continue."""
        actor = self.actor
        if now is None:
            if actor.guest:
                return link_ended()
            if actor.context.key:
                return NotSignedIn("The key was ended in the meantime. Use another key.")
            return NotSignedIn("Your account was disabled in the meantime. Ask your administrator.")
        if actor.guest is None and not now.admits(actor.context.address):
            return AddressNotAllowed("Your account can't be used from your address any more. Ask your administrator.")
        return next((loss for path, needed in self._needs if (loss := self._loss_at(path, needed, now.reach))), None)

    def _loss_at(self, path: Path, needed: frozenset[Right], now: Reach) -> PorticoError | None:
        actor, then, mount = self.actor, self.actor.user.reach.at(path), now.at(path)
        if then is None:  # a virtual folder, in which there is nothing to lose
            return None
        rights = mount.rights if mount else frozenset()
        if mount and (missing := needed - rights):
            return Forbidden(actor.right_missing.format(missing_word(min(missing), rights)))
        # Another mount may hide what this one gave: below the path, or in another spelling.
        former = actor.user.reach
        below = [*now.below(path)] == [*former.below(path)] and now.spelling(path) == former.spelling(path)
        if mount and below and mount.place_of(path) == then.place_of(path):
            return None
        if actor.guest is None:
            folder = "Your root folder" if then.path.is_root else f"Your folder '{then.path}'"
            what = "changed" if mount else "removed"
            return Forbidden(f"{folder} was {what} in the meantime. Repeat the request.")
        # A link follows a moved folder: a download continues, but nothing is stored in the former place.
        follows = needed <= _READING and mount and below and mount.path == then.path
        return None if follows else link_ended()


class Watch:
    """Running work whose actor is looked up again at intervals: see `Watches`."""

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self._lost = asyncio.Event()
        self._error: PorticoError | None = None

    def check(self) -> None:
        """Raises if the actor may not continue. Makes no lookup of its own."""
        if self._error:
            raise self._error

    async def lost(self) -> PorticoError:
        """Returns as soon as the actor may not continue."""
        await self._lost.wait()
        assert self._error
        return self._error

    def end(self, error: PorticoError) -> None:
        self._error = error
        self._lost.set()


class Watches:
    """Ends the work of actors in this worker that lost a right, with one lookup per actor, all at the same time."""

    def __init__(self) -> None:
        self._watched: WeakSet[Watch] = WeakSet()
        self._asking: asyncio.Task[None] | None = None

    def add(self, standing: Standing) -> Watch:
        """Watch the work for as long as there is a reference to the watch."""
        watch = Watch(standing)
        self._watched.add(watch)
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        return watch

    async def _ask(self) -> None:
        try:
            while self._watched:
                await asyncio.sleep(WATCH_SECONDS)
                actors: dict[str, list[Watch]] = {}
                for watch in self._watched:
                    actors.setdefault(watch.standing.actor.namespace, []).append(watch)
                await asyncio.gather(*(self._compare(watches) for watches in actors.values()))
        finally:
            self._asking = None

    async def _compare(self, watches: list[Watch]) -> None:
        try:
            user = await watches[0].standing.actor.current_user()
        except Unavailable:
            return  # the database does not answer: ask again
        except PorticoError as error:
            for watch in watches:
                watch.end(error)
            return
        except Exception as error:  # a bug must not end the watch over the others
            log.error("bug", exc_info=error)
            return
        for watch in watches:
            if loss := watch.standing.loss(user):
                watch.end(loss)

    async def close(self) -> None:
        if task := self._asking:
            task.cancel()
            await asyncio.wait({task})


class WatchedChunks:
    """A download that ends when its actor may not continue it. A download of a single chunk is not watched."""

    def __init__(self, chunks: Chunks, watches: Watches, standing: Standing) -> None:
        self._chunks = chunks
        self._watches = watches
        self._standing = standing
        self._watch: Watch | None = None
        self._begun = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._watch:
            self._watch.check()
        elif self._begun:
            self._watch = self._watches.add(self._standing)
        self._begun = True
        return await anext(self._chunks)

    def aclose(self) -> Awaitable[None]:
        self._watch = None
        return self._chunks.aclose()


class Authentication:
    def __init__(
        self,
        sign_in: SignIn,
        sessions: Sessions,
        tickets: Tickets[Session],
        keys: ApiKeys,
        invitations: Invitations,
        guests: Guests,
        journal: Journal,
        metrics: Metrics,
    ) -> None:
        self._sign_in = sign_in
        self._sessions = sessions
        self._tickets = tickets
        self._keys = keys
        self._invitations = invitations
        self._guests = guests
        self._journal = journal
        self._metrics = metrics

    async def sign_in(self, context: RequestContext, username: str, password: str, device: str = "") -> SignedIn:
        """As `SignIn.with_password`. A success, a wrong password, an account that may not act, and a
        wrong address are audited."""
        if name_key(username):  # anything else may be a password in the wrong field
            context.user = username
        outcome = "interrupted"
        try:
            signed_in = await self._sign_in.with_password(username, password, context.address, device, context.agent)
            outcome, context.session = DONE, signed_in.tokens.session
            return signed_in
        except PorticoError as error:
            outcome = _OUTCOMES.get(type(error), error.code)
            raise
        finally:
            try:
                # A throttled attempt has no line: otherwise a flood of them could fill the disk.
                if outcome in _AUDITED:
                    await self._journal.record(context.audit_line("sign-in", outcome=outcome))
            except Unavailable as error:
                outcome = error.code
                raise
            finally:
                self._metrics.sign_ins.add((outcome,))

    async def refresh(self, context: RequestContext, refresh_token: str) -> TokenPair:
        """As `Sessions.refresh`, audited. An unknown token counts as a failed attempt of the client's address."""
        async with AsyncExitStack() as stack:

            async def begin(user: str) -> None:
                """Before the token is used up, but not before its user is known: an unknown token has no line."""
                context.user = user
                change = Change(self._journal, context, "refresh")
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
            return self._guest(context, asked_at, await self._guests.guest(access_token))
        session = await self._sessions.session(access_token)
        context.user = session.user.name
        check_address(session.user, context.address)
        return self._user(context, asked_at, session)

    async def with_password(self, context: RequestContext, username: str, password: str) -> Actor:
        """The actor behind a user name and password, without a session: for front ends that send both each time."""
        asked_at = time.monotonic()
        user = await self._sign_in.verify(username, password, context.address)
        context.user = user.name
        return Actor(user, context, asked_at, partial(self._sessions.current_user, user.id))

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
        return Actor(use.user, context, asked_at, partial(self._keys.current_user, use.digest))

    async def with_ticket(self, context: RequestContext, ticket: str, path: Path) -> Actor:
        """The actor behind a ticket for `path`, who may download that file or folder and do nothing else."""
        context.ticket = True
        asked_at = time.monotonic()
        if resembles_guest_token(ticket):
            guest, is_folder = await self._guests.redeem(ticket, path)
            actor = self._guest(context, asked_at, guest)
        else:
            session, is_folder = await self._tickets.redeem(ticket, path)
            context.user = session.user.name
            check_address(session.user, context.address)
            actor = self._user(context, asked_at, session)
        return msgspec.structs.replace(actor, only=Scope(path, is_folder), by_ticket=True)

    def _user(self, context: RequestContext, asked_at: float, session: Session) -> Actor:
        context.session = session.family
        current = partial(self._sessions.current_user, session.user.id)
        return Actor(session.user, context, asked_at, current, session)

    def _guest(self, context: RequestContext, asked_at: float, guest: Guest) -> Actor:
        context.user = guest.open.owner.name
        context.link = guest.link.id
        context.guest = guest.name
        only = Scope(guest.only_file) if guest.only_file else None
        current = partial(self._guests.current_user, guest)
        return Actor(guest.user, context, asked_at, current, only=only, guest=guest)

    async def invitation(self, context: RequestContext, token: str) -> Invitation:
        """What an invitation is for. An unknown one counts as a failed attempt of the client's address."""
        try:
            found = await self._invitations.find(token)
        except UnknownInvitation:
            await self._sign_in.credential_failed(context.address)
            raise
        check_address(found.user, context.address)
        return found

    async def accept_invitation(self, context: RequestContext, token: str, password: str) -> None:
        context.user = (await self.invitation(context, token)).user.name
        async with Change(self._journal, context, "invitation.accept") as change:
            await change.begin()
            await self._invitations.accept(token, password)
        self._sessions.forget()

    async def sign_out(self, actor: Actor) -> None:
        actor.require_unrestricted()
        session = actor.require_session()
        async with Change(self._journal, actor.context, "sign-out") as change:
            await change.begin()
            await self._sessions.end(session)
