"""A front end without HTTP that sends requests under keys, and loses its process between two of them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from typing import Any

import pytest

from portico.model.errors import AlreadyExists, Changed, IdempotencyKeyReused, RequestRunning
from portico.operations.actors.attempt import Attempt
from portico.operations.actors.auditing import ChangeResult
from portico.operations.actors.cancellation import ChangeAbandoned
from portico.operations.actors.request_context import RequestContext
from portico.operations.files.files import OnConflict
from portico.providers.local.provider import LocalProvider
from portico.store.idempotency import RequestClaim

from .test_second_front_end import FrontEnd, Installation, at, chunks, installation

__all__ = ["installation"]


class Repeating:
    """Answers are the text of what an operation returns. `crashes`: the process ends before the answer is stored."""

    def __init__(self, front: FrontEnd) -> None:
        self._front = front
        self.crashes = False

    async def send(self, key: str, operation: str, *arguments: Any, **options: Any) -> str:
        async def serve(context: RequestContext) -> str:
            actor = await self._front.actor(context)
            request = sha256(repr((operation, [str(each) for each in arguments if not _is_body(each)])).encode())
            idempotency = self._front.gateway.idempotency
            attempt = await idempotency.begin(actor, key, request.digest())
            if isinstance(attempt, bytes):
                return f"again: {attempt.decode()}"
            context.attempt = attempt
            answered = False
            try:
                result = await getattr(self._front.gateway.operations(actor).files, operation)(*arguments, **options)
                stored = result.path if isinstance(result, ChangeResult) else result
                answer = str(getattr(stored, "name", stored))
                if self.crashes:
                    await _vanish(attempt)
                else:
                    await attempt.answer(answer.encode())
                answered = True
            finally:
                if not answered:
                    await attempt.give_up()
            return answer

        text: str = await self._front.request(serve)
        return text


def _is_body(argument: object) -> bool:
    return hasattr(argument, "__anext__")


async def _vanish(attempt: Attempt) -> None:
    claim: RequestClaim = attempt._claim
    await claim.let_go()
    await claim.change(owned_until=0)


@pytest.fixture
async def repeating(installation: Installation) -> Repeating:
    await installation.front_end.sign_in("web")
    return Repeating(installation.front_end)


def names(installation: Installation) -> list[str]:
    return sorted(file.name for file in installation.files.iterdir())


async def test_an_operation_is_done_once(installation: Installation, repeating: Repeating) -> None:
    def store() -> Awaitable[str]:
        return repeating.send("k", "store", at("/a"), chunks(b"1"), None, OnConflict.RENAME)

    assert await store() == "a"
    assert await store() == "again: a"
    assert names(installation) == ["a"]
    with pytest.raises(IdempotencyKeyReused):
        await repeating.send("k", "delete", at("/a"))
    assert names(installation) == ["a"]


@pytest.mark.parametrize("on_conflict", [OnConflict.RENAME, OnConflict.FAIL])
async def test_a_file_is_recognised_in_pieces_of_any_size(
    installation: Installation, repeating: Repeating, on_conflict: OnConflict
) -> None:
    repeating.crashes = True
    for pieces in ([b"0123456789"], [b"0", b"123", b"", b"456789"], [b"01234", b"56789"]):
        answer = await repeating.send("k", "store", at("/a"), chunks(*pieces), None, on_conflict)
        assert answer == "a"
    assert names(installation) == ["a"]
    empty = [await repeating.send("e", "store", at("/e"), chunks(), None, on_conflict) for _ in range(2)]
    assert empty == ["e", "e"]
    for other in (b"012345678", b"0123456788", b"x"):
        if on_conflict is OnConflict.FAIL:
            with pytest.raises(AlreadyExists):
                await repeating.send("k", "store", at("/a"), chunks(other), None, on_conflict)
        else:
            answer = await repeating.send("k", "store", at("/a"), chunks(other), None, on_conflict)
            assert answer.startswith("a (")
    assert (installation.files / "a").read_bytes() == b"0123456789"


async def test_a_file_that_cannot_be_read_is_not_taken_for_the_same(
    installation: Installation, repeating: Repeating, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeating.crashes = True
    await repeating.send("k", "store", at("/a"), chunks(b"1"), None, OnConflict.RENAME)

    async def fail(*_: object, **__: object) -> None:
        raise Changed("It has changed.")

    monkeypatch.setattr(LocalProvider, "read", fail)
    assert await repeating.send("k", "store", at("/a"), chunks(b"1"), None, OnConflict.RENAME) == "a (1)"


async def test_each_change_is_seen_to_be_done(installation: Installation, repeating: Repeating) -> None:
    for name in ("a", "b", "c", "d"):
        (installation.files / name).write_text(name)
    (installation.files / "full" / "sub").mkdir(parents=True)
    repeating.crashes = True
    for _ in range(3):
        await repeating.send("1", "delete", at("/a"))
        await repeating.send("2", "make_folder", at("/new"))
        assert await repeating.send("3", "copy", at("/b"), at("/c"), OnConflict.RENAME) == "c (1)"
        assert await repeating.send("4", "move", at("/d"), at("/c"), OnConflict.RENAME) == "c (2)"
        assert await repeating.send("5", "move", at("/full"), at("/moved"), OnConflict.FAIL) == "moved"
        assert await repeating.send("6", "copy", at("/b"), at("/e"), OnConflict.FAIL) == "e"
    assert names(installation) == ["b", "c", "c (1)", "c (2)", "e", "moved", "new"]


async def test_a_folder_whose_copy_may_be_incomplete_is_copied_again(
    installation: Installation, repeating: Repeating
) -> None:
    (installation.files / "a").mkdir()
    repeating.crashes = True
    assert await repeating.send("k", "copy", at("/a"), at("/b"), OnConflict.RENAME) == "b"
    assert await repeating.send("k", "copy", at("/a"), at("/b"), OnConflict.RENAME) == "b (1)"
    await repeating.send("f", "copy", at("/a"), at("/c"), OnConflict.FAIL)
    with pytest.raises(AlreadyExists):
        await repeating.send("f", "copy", at("/a"), at("/c"), OnConflict.FAIL)


async def test_a_client_that_hangs_up_may_ask_again(
    installation: Installation, repeating: Repeating, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = installation.front_end
    (installation.files / "a").write_text("a")
    copy = LocalProvider.copy

    async def hang_up(*arguments: Any, **options: Any) -> None:
        await copy(*arguments, **options)
        front.client_gone.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(LocalProvider, "copy", hang_up)
        with pytest.raises(ChangeAbandoned):
            await repeating.send("k", "copy", at("/a"), at("/b"), OnConflict.RENAME)
    front.client_gone.clear()
    assert await repeating.send("k", "copy", at("/a"), at("/b"), OnConflict.RENAME) == "b"
    assert names(installation) == ["a", "b"]


async def test_an_attempt_that_was_taken_over_changes_nothing(
    installation: Installation, repeating: Repeating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a process was suspended: another one has carried the request out meanwhile."""
    taken_over = asyncio.Event()

    async def body(overtake: Callable[[], Awaitable[object]]) -> AsyncIterator[bytes]:
        yield b"1"
        await overtake()
        taken_over.set()

    async def overtake() -> None:
        [claim] = claims
        await claim.let_go()
        await claim.change(owned_until=0)
        claim.owned_until = 0
        await repeating.send("k", "store", at("/a"), chunks(b"1"), None, OnConflict.REPLACE)
        (installation.files / "a").unlink()

    claims: list[RequestClaim] = []
    keys = installation.front_end.gateway.idempotency._keys
    claim_key = keys.claim

    async def watched(*arguments: Any) -> Any:
        found = await claim_key(*arguments)
        if not claims:
            claims.append(found)  # type: ignore[arg-type]
        return found

    monkeypatch.setattr(keys, "claim", watched)
    with pytest.raises(RequestRunning):
        await repeating.send("k", "store", at("/a"), body(overtake), None, OnConflict.REPLACE)
    assert taken_over.is_set()
    assert names(installation) == []
    assert await repeating.send("k", "store", at("/a"), chunks(b"1"), None, OnConflict.REPLACE) == "again: a"
