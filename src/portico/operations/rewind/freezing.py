"""`Freezing`: end the credentials of an actor whose changes are to be undone, so that no further ones are made."""

from contextlib import suppress
from typing import Final

from portico.accounts.api_keys import ApiKeys
from portico.accounts.sessions import Sessions
from portico.accounts.share_links import ShareLinks
from portico.accounts.users import Users
from portico.model.errors import InvalidRequest, NotFound
from portico.observability.audit import is_command
from portico.store.database import Database
from portico.store.history import ActorFilter, user_of
from portico.store.users import User

ACTIONS: Final = {"user": "user.disable", "key": "key.end", "link": "share.end", "session": "session.end"}
"""What the journal calls it."""


class Freezing:
    def __init__(self, database: Database, users: Users, keys: ApiKeys, links: ShareLinks, sessions: Sessions) -> None:
        self._database = database
        self._users = users
        self._keys = keys
        self._links = links
        self._sessions = sessions

    async def owner(self, actor: ActorFilter) -> User:
        """The user whose account, key, link or session it is. `actor` and that of `freeze` is a single one."""
        name = actor.user or await user_of(self._database, actor)
        if name is None and actor.key:
            name = next((user.name for user, key, _ in await self._keys.usable() if key.id == actor.key), None)
        if name is None:
            raise NotFound(
                "The journal has no change by this actor, and nothing was frozen. Check the id; it is not a name."
            )
        if is_command(name):
            raise InvalidRequest("A rewind can't be frozen. Leave out --freeze.")
        return await self._users.get(name)

    async def freeze(self, actor: ActorFilter, owner: User) -> None:
        """A user is disabled; a key, a link or a session is ended, unless that was done before."""
        with suppress(NotFound):
            if actor.user:
                await self._users.change(owner.name, disabled=True)
            elif actor.key:
                await self._keys.end(owner, actor.key)
            elif actor.link:
                await self._links.end(owner, actor.link)
            elif actor.session:
                await self._sessions.end_one(owner, actor.session)
