"""Idempotency keys: a request that is sent again under its key is carried out once, and gets the same answer.

A front end asks for an `Attempt`, puts it into the request's context, and hands over the answer. What an interrupted
attempt has done, the operations find out themselves: see `recovery`.
"""

from hashlib import sha256

from portico.model.errors import Forbidden, IdempotencyKeyReused
from portico.model.paths import TOP
from portico.model.rights import OVERWRITE, Right, parse_rights
from portico.operations.actors.actor import Actor
from portico.operations.actors.attempt import Attempt, running
from portico.store.idempotency import KEPT, Answered, IdempotencyKeys, Reused, Running
from portico.store.users import User

__all__ = ["KEPT", "Idempotency"]

_CHANGING = frozenset({Right.DOWNLOAD, Right.UPLOAD}) | OVERWRITE
"""Rights that changes need."""


class Idempotency:
    def __init__(self, keys: IdempotencyKeys) -> None:
        self._keys = keys

    async def begin(self, actor: Actor, key: str, request: bytes) -> Attempt | bytes:
        """A new attempt, or the answer of an earlier one of this actor. `request` is a SHA-256 of all that makes up the request.

        `IdempotencyKeyReused`: the key is that of another request. `RequestRunning`: an attempt is under way.
        `Forbidden`: the actor has less than when the answer was given.
        """
        actor.require_unrestricted()
        digest = sha256(f"{actor.namespace}\0{key}".encode()).digest()
        claim = await self._keys.claim(digest, request, _scope(actor.user), actor.holder)
        match claim:
            case Answered(response, scope):
                if not _holds(actor.user, scope):
                    raise Forbidden(
                        "Your rights or root folder have changed since this request was answered. "
                        "Send it with a new idempotency key."
                    )
                return response
            case Reused():
                raise IdempotencyKeyReused(
                    "This idempotency key belongs to another request. Use a new key for each request."
                )
            case Running():
                raise running()
        return Attempt(claim)


def _scope(user: User) -> str:
    """The user's mounts with the rights that changes need, two lines each."""
    return str(user.reach.limited_to(TOP, _CHANGING))


def _holds(user: User, scope: str) -> bool:
    """Whether the user still has the same places, and no fewer rights."""
    then, now = scope.split("\n"), _scope(user).split("\n")
    return then[::2] == now[::2] and all(map(_includes, now[1::2], then[1::2]))


def _includes(now: str, then: str) -> bool:
    return parse_rights(then) <= parse_rights(now)
