"""`Prefer: respond-async`: long changes become jobs that can be watched, cancelled, and found again."""

import asyncio
from typing import Any

import httpx2
import pytest

from portico.accounts.api_keys import ApiKeys, KeyScope
from portico.api.jobs import JOBS
from portico.api.requests import FILESYSTEM
from portico.model.errors import ProviderUnavailable
from portico.operations.actors import actor
from portico.operations.jobs import Jobs
from portico.providers.local.provider import LocalProvider
from portico.runtime import progress_counter
from portico.store.database import Database
from portico.store.jobs import JobRecords

from .conftest import OpenGateway
from .gateways import Gateway, address
from .test_cancellation import METHODS, PROVIDED, Slow

AT_ONCE = {"Prefer": "respond-async, wait=0"}
PATIENT = {"Prefer": "respond-async, wait=30"}
COPY = {"action": "COPY", "target": "/new"}


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    slow = Slow()
    monkeypatch.setattr(LocalProvider, "copy", slow)
    return slow


@pytest.fixture
async def gateway(open_gateway: OpenGateway) -> Any:
    gateway = await open_gateway()
    gateway.put("tree/file")
    yield gateway
    gateway.stop()  # or jobs that never end would be waited for


async def jobs(gateway: Gateway, method: str = "GET", place: str = JOBS, user: str = "web") -> httpx2.Response:
    return await gateway.client.request(method, place, headers=await gateway.sign_in(user))


async def ended(gateway: Gateway, place: str) -> Any:
    async with asyncio.timeout(60):
        while (job := (await jobs(gateway, place=place)).json())["state"] == "running":
            await asyncio.sleep(0.01)
    return job


async def copy(gateway: Gateway, headers: dict[str, str] = AT_ONCE, **options: Any) -> httpx2.Response:
    return await gateway.call("POST", "tree", headers=headers, params=COPY | options)


def audit_lines(gateway: Gateway) -> list[str]:
    return (gateway.settings.home / "audit.log").read_text().splitlines()


async def test_what_is_done_in_time_is_answered_plainly(gateway: Gateway) -> None:
    done = await copy(gateway, PATIENT)
    assert (done.status_code, done.headers["Location"]) == (201, f"{FILESYSTEM}/new")
    assert "Preference-Applied" not in done.headers
    again = await copy(gateway, PATIENT, onConflict="fail")
    assert (again.status_code, again.json()["code"]) == (409, "already-exists")
    assert (await gateway.call("DELETE", "new", headers=PATIENT, params={"recursive": "true"})).status_code == 204
    assert (await jobs(gateway)).json() == {"content": []}


@pytest.mark.parametrize("change", METHODS)
async def test_a_job_from_begin_to_end(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    genuine, begun, go_on = getattr(LocalProvider, PROVIDED[change]), asyncio.Event(), asyncio.Event()

    async def halting(*arguments: Any, **options: Any) -> None:
        progress_counter.count(3, 300)
        begun.set()
        await go_on.wait()
        await genuine(*arguments, **options)

    monkeypatch.setattr(LocalProvider, PROVIDED[change], halting)
    method, target = METHODS[change]
    query = target.decode().partition("?")[2]
    answer = await gateway.call(method, "tree", headers=AT_ONCE, params=query)
    assert (answer.status_code, answer.headers["Preference-Applied"]) == (202, "respond-async")
    place = answer.headers["Location"]
    job = answer.json()
    assert place == f"{JOBS}/{job['id']}"
    assert (job["kind"], job["state"], job["source"]) == (change, "running", "/tree")
    assert job.get("target") == (None if change == "delete" else "/new")
    async with asyncio.timeout(60):
        while not (seen := (await jobs(gateway, place=place)).json())["entriesDone"]:
            await asyncio.sleep(0.05)
    assert (seen["entriesDone"], seen["bytesDone"], seen["state"]) == (3, 300, "running")
    assert seen.get("entriesTotal") == (None if change == "delete" else 1)
    for method in ("GET", "DELETE"):  # nobody else sees it
        assert (await jobs(gateway, method, place, user="writer")).status_code == 404
    assert (await jobs(gateway, user="writer")).json() == {"content": []}
    assert (await jobs(gateway)).json() == {"content": [seen]}
    go_on.set()
    job = await ended(gateway, place)
    assert job["state"] == "done"
    assert job.get("result") == (None if change == "delete" else "/new")
    assert job["endedAt"] >= job["startedAt"]
    assert (gateway.files / "new/file").exists() == (change != "delete")
    assert (gateway.files / "tree").exists() == (change == "copy")
    assert audit_lines(gateway)[-1].count('"done"') == 1
    forgotten = await jobs(gateway, "DELETE", place)
    assert (forgotten.status_code, forgotten.json()) == (200, job)
    assert (await jobs(gateway, place=place)).status_code == 404


async def test_cancel(gateway: Gateway, slow: Slow) -> None:
    place = (await copy(gateway)).headers["Location"]
    await slow.begun.wait()
    answer = await jobs(gateway, "DELETE", place)
    assert (answer.status_code, answer.json()["state"]) == (202, "running")
    async with asyncio.timeout(60):
        await slow.called_off.wait()
    job = await ended(gateway, place)
    assert job["state"] == "cancelled"
    assert "problem" not in job
    assert '"interrupted"' in audit_lines(gateway)[-1]


async def test_cancel_that_comes_too_late(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is done although it was cancelled, and that is what the job says."""

    begun = asyncio.Event()

    async def stubborn(*_: Any, **__: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    monkeypatch.setattr(LocalProvider, "copy", stubborn)
    place = (await copy(gateway)).headers["Location"]
    await begun.wait()
    await jobs(gateway, "DELETE", place)
    assert (await ended(gateway, place))["state"] == "done"


async def test_failure(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: Any, **__: Any) -> None:
        raise ProviderUnavailable("The service is gone.").after("1 files were copied")

    monkeypatch.setattr(LocalProvider, "copy", failing)
    plain = (await copy(gateway, {})).json()
    answer = await copy(gateway)
    job = await ended(gateway, answer.headers["Location"])
    assert job["state"] == "failed"
    assert job["problem"].pop("requestId") == answer.headers["X-Request-Id"]
    del plain["requestId"]
    assert job["problem"] == plain
    monkeypatch.setattr(LocalProvider, "copy", lambda *_, **__: 1 // 0)
    job = await ended(gateway, (await copy(gateway)).headers["Location"])
    assert (job["state"], job["problem"]["code"]) == ("failed", "internal")


async def test_rights_are_those_of_the_plain_change(gateway: Gateway) -> None:
    for headers in (PATIENT, {}):
        answer = await gateway.call("POST", "tree", user="reader", headers=headers, params=COPY)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_disabled_user_and_a_stop_end_jobs(gateway: Gateway, slow: Slow) -> None:
    first = (await copy(gateway)).headers["Location"]
    await slow.begun.wait()
    await gateway.users.change("web", disabled=True)
    async with asyncio.timeout(60):
        await slow.called_off.wait()
    await gateway.users.change("web", disabled=False)
    assert (await ended(gateway, first))["state"] == "cancelled"
    second = (await copy(gateway)).headers["Location"]
    gateway.stop()
    job = await ended(gateway, second)
    assert (job["state"], job["problem"]["code"]) == ("failed", "unavailable")
    assert "Check it and try again" in job["problem"]["detail"]


async def test_a_client_that_hangs_up_leaves_its_job(gateway: Gateway, slow: Slow) -> None:
    headers = [*(await gateway.sign_in()).items(), *AT_ONCE.items()]
    target = f"{FILESYSTEM}/tree?action=COPY&target=/new".encode()
    steps: Any = (slow.begun.wait, ConnectionError())
    answer = await gateway.raw("POST", target, headers, steps)
    assert answer.status == 202
    assert not slow.called_off.is_set()


async def test_too_many(gateway: Gateway, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Jobs, "max_per_actor", 2)
    places = [(await copy(gateway)).headers["Location"] for _ in range(2)]
    refused = await copy(gateway)
    assert (refused.status_code, refused.json()["code"]) == (429, "too-many-requests")
    assert int(refused.headers["Retry-After"]) > 0
    assert (await gateway.call("POST", "tree", user="writer", headers=AT_ONCE, params=COPY)).status_code == 202
    # A key has jobs of its own, which its owner neither sees nor waits for.
    database = Database(gateway.settings.database_url)
    keys = ApiKeys(database)
    text = (await keys.add(await gateway.users.get("web"), KeyScope("key"))).text
    await keys.close()
    await database.close()
    headers = {**AT_ONCE, "Authorization": f"Bearer {text}"}
    answers = [await gateway.client.post(address("tree"), headers=headers, params=COPY) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [202, 202, 429]
    await jobs(gateway, "DELETE", places[0])
    await ended(gateway, places[0])
    assert (await copy(gateway)).status_code == 202


async def test_a_repeated_request_gets_the_same_job(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that notes the name that it has chosen after its request was answered."""
    gateway.put("new/file")
    go_on, find = asyncio.Event(), LocalProvider.stat

    async def slow_stat(*arguments: Any) -> Any:
        await go_on.wait()
        return await find(*arguments)

    monkeypatch.setattr(LocalProvider, "stat", slow_stat)
    headers = AT_ONCE | {"Idempotency-Key": '"one"'}
    first = await copy(gateway, headers, onConflict="rename")
    go_on.set()
    job = await ended(gateway, first.headers["Location"])
    assert (job["state"], job["result"]) == ("done", "/new (1)")
    again = await copy(gateway, headers, onConflict="rename")
    assert (again.status_code, again.headers["Location"]) == (202, first.headers["Location"])
    assert again.headers["Idempotency-Replayed"] == "true"
    assert not (gateway.files / "new (2)").exists()


async def test_without_the_database_it_stays_a_plain_change(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: Any, **__: Any) -> Any:
        raise ProviderUnavailable("The database does not answer.")

    monkeypatch.setattr(JobRecords, "add", failing)
    assert (await copy(gateway)).status_code == 201


async def test_unknown_addresses(gateway: Gateway) -> None:
    assert (await gateway.client.get(JOBS)).status_code == 401
    for place in (f"{JOBS}/", f"{JOBS}/{'0' * 32}", f"{JOBS}/a/b", f"{JOBS}/%00"):
        for method in ("GET", "HEAD", "DELETE"):
            assert (await jobs(gateway, method, place)).status_code == 404, place
    assert (await jobs(gateway, "POST", f"{JOBS}/a")).status_code == 405


async def test_a_job_ends_with_its_key(gateway: Gateway, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor, "WATCH_SECONDS", 0.01)
    keys, owner = "/backend/1.0.0/account/keys", await gateway.sign_in("web")
    made = (await gateway.client.post(keys, headers=owner, json={"name": "copies"})).json()
    key = {"Authorization": f"Bearer {made['key']}"}
    begun = await gateway.client.post(f"{FILESYSTEM}/tree", headers=AT_ONCE | key, params=COPY)
    assert begun.status_code == 202
    place = begun.headers["Location"]
    assert (await gateway.client.get(place, headers=key)).json()["state"] == "running"
    assert (await jobs(gateway, place=place)).status_code == 404, "of another credential"
    assert (await gateway.client.delete(f"{keys}/{made['id']}", headers=owner)).status_code == 204
    async with asyncio.timeout(60):
        await slow.called_off.wait()


async def test_a_burst_of_changes_passes_exactly_the_limit(
    gateway: Gateway, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Jobs, "max_per_actor", 3)
    answers = await asyncio.gather(*(copy(gateway, target=f"/new{each}") for each in range(12)))
    assert sorted(each.status_code for each in answers) == [202] * 3 + [429] * 9
