"""`OwnAccount`: what a signed-in user may do with their own account. Nobody may do it by a key, a ticket or a link."""

import msgspec

from portico.accounts.api_keys import ApiKeys, KeyScope, NewKey
from portico.accounts.limits import parse_network
from portico.accounts.sessions import Sessions
from portico.accounts.sign_in import SignIn
from portico.operations.actors.actor import Actor
from portico.operations.actors.auditing import Change
from portico.store.api_keys import ApiKey
from portico.store.journal import Journal
from portico.store.sessions import OpenSession

__all__ = ["AccountServices", "ApiKey", "KeyScope", "NewKey", "OpenSession", "OwnAccount", "parse_network"]


class AccountServices(msgspec.Struct, frozen=True):
    sign_in: SignIn
    sessions: Sessions
    keys: ApiKeys
    journal: Journal


class OwnAccount:
    def __init__(self, shared: AccountServices, actor: Actor) -> None:
        actor.require_unrestricted()
        self._session = actor.require_session()
        self._shared = shared
        self.user = actor.user
        self._context = actor.context

    async def change_password(self, old: str, new: str) -> None:
        """Set another password; all other sessions end. `WrongPassword` if the old one is wrong."""
        async with Change(self._shared.journal, self._context, "password.change") as change:
            await change.begin()
            await self._shared.sign_in.change_password(self._session, old, new, self._context.address)

    # Sessions

    async def sessions(self) -> list[OpenSession]:
        return await self._shared.sessions.list(self.user)

    def is_current(self, session: OpenSession) -> bool:
        return session.id == self._session.family

    async def end_session(self, session_id: str) -> None:
        async with Change(self._shared.journal, self._context, "session.end") as change:
            await change.begin()
            await self._shared.sessions.end_one(self.user, session_id)

    async def end_other_sessions(self) -> None:
        async with Change(self._shared.journal, self._context, "session.end-others") as change:
            await change.begin()
            await self._shared.sessions.end_others(self._session)

    # Keys

    async def keys(self) -> list[ApiKey]:
        return await self._shared.keys.list(self.user)

    async def add_key(self, scope: KeyScope) -> NewKey:
        """A new key; its text is known only now."""
        async with Change(self._shared.journal, self._context, "key.add") as change:
            change.line.subject = scope.name[:64]
            await change.begin()
            new = await self._shared.keys.add(self.user, scope)
            change.line.key, change.line.key_name = new.key.id, new.key.name
        return new

    async def end_key(self, key_id: str) -> None:
        "End a key. It stops working everywhere within a second."
        key = await self._shared.keys.get(self.user, key_id)
        async with Change(self._shared.journal, self._context, "key.end") as change:
            change.line.subject = key.name
            change.line.key, change.line.key_name = key.id, key.name
            await change.begin()
            await self._shared.keys.end(self.user, key_id)
