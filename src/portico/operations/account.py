"""`OwnAccount`: what a signed-in user may do with their own account. Nobody may do it by a key, a ticket or a link."""

from dataclasses import dataclass

from portico.accounts.api_keys import ApiKey, ApiKeys, KeyScope, NewKey, parse_network
from portico.audit import AuditTrail
from portico.operations.actor import Actor
from portico.operations.auditing import Change

__all__ = ["AccountResources", "ApiKey", "KeyScope", "NewKey", "OwnAccount", "parse_network"]


@dataclass(frozen=True, slots=True)
class AccountResources:
    keys: ApiKeys
    audit: AuditTrail


class OwnAccount:
    """Made for one request."""

    def __init__(self, resources: AccountResources, actor: Actor) -> None:
        actor.context.action = "account"
        actor.require_unrestricted()
        self._session = actor.require_session()
        self._resources = resources
        self._user = actor.user
        self._context = actor.context

    # Keys

    async def keys(self) -> list[ApiKey]:
        return await self._resources.keys.list(self._user)

    async def add_key(self, scope: KeyScope) -> NewKey:
        """A new key; its text is known only now."""
        async with Change(self._resources.audit, self._context, "key.add") as change:
            change.line.subject = scope.name[:64]
            await change.begin()
            new = await self._resources.keys.add(self._user, scope)
            change.line.key, change.line.key_name = new.key.id, new.key.name
        return new

    async def end_key(self, key_id: str) -> None:
        """End a key, everywhere within a second."""
        key = await self._resources.keys.get(self._user, key_id)
        async with Change(self._resources.audit, self._context, "key.end") as change:
            change.line.subject = key.name
            change.line.key, change.line.key_name = key.id, key.name
            await change.begin()
            await self._resources.keys.end(self._user, key_id)
