"""A service that wishes us ill: whatever it answers, and to whichever call of an operation, it leads nowhere and ends.

An operation is a chain of calls. Each is attacked in turn, with all that come after it, until the chain is too short.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from itertools import count

import pytest

from portico.model.errors import PorticoError, ProviderFailed, ProviderTimeout, ProviderUnavailable
from portico.model.paths import Path
from portico.providers.contract.provider import Provider
from portico.providers.contract.registry import open_provider, probe
from portico.providers.multipart.parts import MIN_PART_BYTES
from portico.providers.wire.transport import MAX_PAGE_BYTES

from ..servers.hostile import BEHAVIOURS, LISTENER, Attack, Behaviour, Hostile, Request, Response, Trap, options
from .actions import pieces

MIB = 2**20
SECRET_TOKEN = "session-token-of-the-gateway"
ATTACKS = [Attack.REDIRECT, Attack.ENDLESS_BODY, Attack.ENDLESS_ERROR]
"""Endless listings are tested in `tests/providers/test_endless_listings.py`."""
DEADLINE_SECONDS = 0.2
_GUARD_SECONDS = 60
"""Distinguishes a test that would never end from a slow machine."""


async def listing(provider: Provider) -> None:
    await provider.list_page(Path.parse("tree"), 100, None)


async def stat(provider: Provider) -> None:
    await provider.stat(Path.parse("tree/file"))


async def read(provider: Provider) -> None:
    download = await provider.read(Path.parse("tree/file"))
    async with aclosing(download.chunks) as chunks:
        assert b"secret of another host" not in b"".join([chunk async for chunk in chunks])


async def write_small(provider: Provider) -> None:
    await provider.write(Path.parse("tree/new"), pieces(b"x" * 1000), "text/plain")


async def write_large(provider: Provider) -> None:
    await provider.write(Path.parse("tree/new"), pieces(bytes(MIN_PART_BYTES + 1)), "text/plain")


async def make_folder(provider: Provider) -> None:
    await provider.make_folder(Path.parse("a/new"))


async def delete_file(provider: Provider) -> None:
    await provider.delete(Path.parse("tree/file"))


async def delete_tree(provider: Provider) -> None:
    await provider.delete(Path.parse("a/tree"), recursive=True)


async def copy(provider: Provider) -> None:
    await provider.copy(Path.parse("a/tree"), Path.parse("b/new"))


async def move(provider: Provider) -> None:
    await provider.move(Path.parse("a/tree"), Path.parse("b/new"))


async def sweep(provider: Provider) -> None:
    await provider.sweep()


async def connection_test(provider: Provider) -> None:
    async for step in probe(provider, Path()):
        if step.error:
            raise step.error


OPERATIONS: Mapping[str, Callable[[Provider], Awaitable[None]]] = {
    operation.__name__: operation
    for operation in (
        *(listing, stat, read, write_small, write_large, make_folder),
        *(delete_file, delete_tree, copy, move, sweep, connection_test),
    )
}
SILENT_SWEEPS = ("azure-blob", "gcs")
"""Kinds whose unfinished uploads the service itself forgets: their sweep asks nothing."""


@asynccontextmanager
async def besieged(kind: str, behaviour: Behaviour | None = None) -> AsyncIterator[tuple[Provider, Hostile, Trap]]:
    async with Trap() as trap, Hostile(behaviour or BEHAVIOURS[kind], trap) as service:
        provider = open_provider(kind, options(kind, service.url))
        before = asyncio.all_tasks()
        try:
            yield provider, service, trap
        finally:
            # Of calls that are made together, the first that fails does not end the others.
            while rest := {each for each in asyncio.all_tasks() - before if each.get_name() != LISTENER}:
                await asyncio.wait(rest)
            await provider.close()


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "key", "SESSION_TOKEN": SECRET_TOKEN}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    # Nobody has to wait between attempts.
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.001)
    monkeypatch.setattr("random.uniform", lambda *_: 0.001)


@pytest.mark.parametrize("kind", BEHAVIOURS)
async def test_the_hostile_service_behaves_while_it_does_not_attack(kind: str) -> None:
    """Else the tests below would not get to the later calls of an operation."""
    async with besieged(kind) as (provider, service, _):
        for operation, act in OPERATIONS.items():
            service.begin(None)
            await act(provider)
            assert service.asked or (operation == "sweep" and kind in SILENT_SWEEPS)


@pytest.mark.parametrize("kind", BEHAVIOURS)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.value)
async def test_nothing_a_service_answers_leads_elsewhere_or_goes_on_for_ever(kind: str, attack: Attack) -> None:
    async with besieged(kind) as (provider, service, trap):
        for operation in OPERATIONS:
            for since in count():
                service.begin(attack, since)
                error = await outcome(provider, operation)
                case = operation, since, error
                assert trap.caught == [], (case, trap.caught[0][:200])
                # What it was rid of before we stopped listening: a page, and what is on its way in buffers, of as many
                # connections as removals have.
                assert service.sent < 2 * MAX_PAGE_BYTES + 64 * MIB, case
                assert error is None or isinstance(error, ProviderFailed | ProviderUnavailable), case
                if not service.attacks:
                    break
                assert since or isinstance(error, ProviderFailed), case


@pytest.mark.parametrize("kind", BEHAVIOURS)
@pytest.mark.parametrize("attack", [Attack.SILENCE, Attack.TRICKLE], ids=lambda attack: attack.value)
async def test_a_service_that_takes_for_ever_is_left_at_the_deadline(kind: str, attack: Attack) -> None:
    async with besieged(kind) as (provider, service, _):
        service.begin(None)
        await provider.stat(Path.parse("file"))  # what the SDK does once is not measured
        shorten_timeouts(provider, DEADLINE_SECONDS)
        service.begin(attack)
        names = [name for name in OPERATIONS if name != "sweep"]
        errors = await asyncio.gather(*(outcome(provider, name) for name in names))
        assert {name: type(error) for name, error in zip(names, errors, strict=True)} == dict.fromkeys(
            names, ProviderTimeout
        )


@pytest.mark.parametrize("kind", BEHAVIOURS)
async def test_a_service_that_falls_silent_midway_is_left_at_the_deadline(kind: str) -> None:
    async def silenced(operation: str) -> None:
        async with besieged(kind) as (provider, service, _):
            service.begin(None)
            await OPERATIONS[operation](provider)
            calls = service.asked
            shorten_timeouts(provider, DEADLINE_SECONDS)
            for since in range(1, calls):
                service.begin(Attack.SILENCE, since)
                error = await outcome(provider, operation)
                assert error is None or isinstance(error, ProviderTimeout), (operation, since, error)

    # One after the other, they would be waiting most of the time.
    await asyncio.gather(*map(silenced, ("write_small", "write_large", "copy")))


@pytest.mark.parametrize("kind", BEHAVIOURS)
@pytest.mark.parametrize("operation", ["listing", "stat", "read"])
async def test_fields_that_make_no_sense_are_the_services_fault(kind: str, operation: str) -> None:
    async with besieged(kind) as (provider, service, _):
        service.begin(Attack.NONSENSE)
        assert isinstance(await outcome(provider, operation), ProviderFailed)


@pytest.mark.parametrize("kind", BEHAVIOURS)
@pytest.mark.parametrize("operation", ["stat", "read"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Content-Length", str(10**30)),
        ("Content-Length", "-5"),
        ("Last-Modified", "Sun, 99 Xxx 2026 99:99:99 GMT"),
        ("ETag", '"\x80\x81"'),
        ("ETag", '"' + 1000 * "e" + '"'),
    ],
    ids=["huge", "negative", "no date", "no text", "long"],
)
async def test_headers_that_make_no_sense_are_the_services_fault(
    kind: str, operation: str, name: str, value: str
) -> None:
    def altered(request: Request, service: Hostile) -> Response:
        response = BEHAVIOURS[kind](request, service)
        if (
            response.status == 200
            and request.path.endswith("file")
            and (name in response.headers or name == "Content-Length")
        ):
            response.headers[name] = value
            response.headers.pop("x-ms-file-last-write-time", None)
            service.attacks += 1
        return response

    async with besieged(kind, altered) as (provider, service, _):
        error = await outcome(provider, operation)
        assert isinstance(error, ProviderFailed) or (not service.attacks and error is None)


@pytest.mark.parametrize("kind", BEHAVIOURS)
async def test_a_page_of_more_than_was_asked_for_is_not_passed_on(kind: str) -> None:
    async with besieged(kind) as (provider, service, _):
        service.begin(Attack.CROWD)
        with pytest.raises(ProviderFailed):
            await provider.list_page(Path.parse("tree"), 1, None)


@pytest.mark.parametrize("kind", BEHAVIOURS)
async def test_a_page_of_tiny_tags_is_not_parsed(kind: str) -> None:
    """It is within its bytes; what it would take to read it is not."""
    async with besieged(kind) as (provider, service, _):
        service.begin(Attack.DENSE_BODY)
        for size in (100, provider.max_page_size):
            with pytest.raises(ProviderFailed):
                await provider.list_page(Path.parse("tree"), size, None)


async def test_content_goes_to_the_configured_address_whatever_session_is_named() -> None:
    async with besieged("gcs") as (provider, service, trap):
        service.begin(Attack.FOREIGN_SESSION)
        assert await outcome(provider, "write_large") is None
        assert trap.caught == []


async def outcome(provider: Provider, operation: str) -> PorticoError | None:
    """The error of the operation; anything but ours is a bug, and so is one that never comes."""
    try:
        async with asyncio.timeout(_GUARD_SECONDS):
            await OPERATIONS[operation](provider)
    except PorticoError as error:
        return error
    return None


def shorten_timeouts(provider: Provider, seconds: float) -> None:
    for name in ("_service", "_share"):
        if holder := getattr(provider, name, None):
            holder.timeout = seconds
            if inner := getattr(holder, "_service", None):
                inner.timeout = seconds
