"""Idempotency keys: a request that is sent again under its key is carried out once, and gets the same answer.

A front end asks for an `Attempt`, puts it into the request's context, and hands over the answer. What an interrupted
attempt has done, the operations find out themselves: see `recovery`.
"""

from hashlib import sha256
from typing import TYPE_CHECKING

from portico.model.errors import Forbidden, IdempotencyKeyReused, RequestRunning
from portico.model.paths import Path
from portico.model.rights import Right, format_rights, parse_rights
from portico.store.idempotency import KEPT, Answered, Claim, IdempotencyKeys, Reused, Running
from portico.store.users import User

if TYPE_CHECKING:
    from portico.operations.actors.actor import Actor

__all__ = ["KEPT", "Attempt", "Idempotency"]

_CHANGING = frozenset({Right.DOWNLOAD, Right.UPLOAD, Right.OVERWRITE})
"""Rights that changes need."""
RETRY_SECONDS = 2
"""After which a client may ask again whether the running request has ended."""


class Attempt:
    """A request under an idempotency key that nobody else carries out now."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._begun = False
        self._answered = False

    @property
    def is_repeated(self) -> bool:
        """Whether an earlier attempt was interrupted, so that part or all of it may be done."""
        return self._claim.repeated

    @property
    def first_at(self) -> int:
        """When the first attempt began, in milliseconds since the epoch."""
        return self._claim.first_at

    async def begin(self) -> None:
        """Called before a change takes effect. `RequestRunning` if another attempt has taken over."""
        if not await self._claim.is_owned() and not self._answered:
            raise _running()
        self._begun = True

    async def choose(self, asked: Path, place: Path) -> None:
        """Remember, until the answer is known, that what is to be stored at `asked` goes to `place`, which is free."""
        await self.note(str(asked), str(place))

    def place_of(self, asked: Path) -> Path | None:
        """What this attempt or an earlier one chose."""
        place = self.noted(str(asked))
        return None if place is None else Path.parse(place)

    async def note(self, name: str, text: str) -> None:
        """Remember a decision until the answer is known. The name is not that of a path, which begins with a slash."""
        if not await self._claim.note({name: text}) and not self._answered:
            raise _running()

    def noted(self, name: str) -> str | None:
        """What this attempt or an earlier one noted."""
        return self._claim.notes.get(name)

    async def answer(self, response: bytes) -> None:
        """The answer, in the front end's own form, for all further requests under this key.

        What is begun or noted later, by work that goes on after the answer, needs no key: nobody repeats it.
        """
        self._answered = True
        await self._claim.answer(response)

    async def give_up(self) -> None:
        """There is no final answer: the next request under this key is carried out."""
        await self._claim.give_up(begun=self._begun)


class Idempotency:
    def __init__(self, keys: IdempotencyKeys) -> None:
        self._keys = keys

    async def begin(self, actor: "Actor", key: str, request: bytes) -> Attempt | bytes:
        """A new attempt, or the answer of an earlier one of this actor. `request` is a SHA-256 of all that makes up the request.

        `IdempotencyKeyReused`: the key is that of another request. `RequestRunning`: an attempt is under way.
        `Forbidden`: the actor has less than when the answer was given.
        """
        actor.require_unrestricted()
        digest = sha256(f"{actor.namespace}\0{key}".encode()).digest()
        claim = await self._keys.claim(digest, request, _scope(actor.user), actor.holder)
        match claim:
            case Answered(response, scope):
                if scope is not None and not _holds(actor.user, scope):
                    raise Forbidden(
                        "Your rights or your root folder changed since this request was answered; "
                        "send it with a new idempotency key."
                    )
                return response
            case Reused():
                raise IdempotencyKeyReused(
                    "This idempotency key was sent with a different request before; use a new key for each request."
                )
            case Running():
                raise _running()
        return Attempt(claim)


def _scope(user: User) -> str:
    return "\n".join((user.connection, user.root, format_rights(user.rights & _CHANGING)))


def _holds(user: User, scope: str) -> bool:
    """Whether the user has the same files, and no right less."""
    connection, root, rights = scope.split("\n")
    return (user.connection, user.root) == (connection, root) and parse_rights(rights) <= user.rights


def _running() -> RequestRunning:
    return RequestRunning(
        "A request with this idempotency key is still running; ask again for its answer in a moment.",
        retry_after=RETRY_SECONDS,
    )
