"""`Attempt`: a request under an idempotency key, and what it notes for the next one in case it is interrupted."""

from portico.model.errors import RequestRunning
from portico.model.paths import Path
from portico.store.idempotency import RequestClaim

RETRY_SECONDS = 2
"""After which a client may ask again whether the running request has ended."""


class Attempt:
    """A request under an idempotency key that nobody else carries out now."""

    def __init__(self, claim: RequestClaim) -> None:
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
            raise running()
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
            raise running()

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


def running() -> RequestRunning:
    return RequestRunning(
        "The first request with this idempotency key is still running. Send it again in a moment to get its answer.",
        retry_after=RETRY_SECONDS,
    )
