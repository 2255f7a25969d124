"""Uploads that break off leave the old file, never a part of a new one."""

import asyncio
import os
from typing import Any

import pytest

from portico.api import middleware, request_body
from portico.model.errors import ProviderUnavailable
from portico.providers.local.provider import LocalProvider

from .gateways import Gateway, Step, form, named
from .uploads import OLD, send, stored

TWO = form(named("a", b"first\r\n--front"), named("b", b"second"))
FIRST_END = TWO.index(b"--frontier\r\nContent", 3) + len(b"--frontier") + 2
SECOND_END = len(TWO) - len(b"\r\n")


async def test_a_body_cut_anywhere_stores_the_files_that_ended_and_never_a_part(gateway: Gateway) -> None:
    whole = {"a": b"first\r\n--front", "b": b"second"}
    for length in range(len(TWO) + 1):
        for name in ("a", "b"):
            gateway.put(name, OLD)
        answer = await send(gateway, [TWO[:length]])
        ended = [name for name, end in (("a", FIRST_END), ("b", SECOND_END)) if length >= end]
        assert stored(gateway) == {name: whole[name] if name in ended else OLD for name in whole}, length
        if length >= SECOND_END:
            assert answer.status == 204
        else:
            assert (answer.status, answer.json()["code"]) == (400, "invalid-request"), length
            assert answer.json()["stored"] == ended, length
            assert set(answer.json()["failed"]) <= whole.keys() - set(ended), length
    assert gateway.left_over == []


async def test_a_client_that_vanishes_anywhere_leaves_no_part(gateway: Gateway) -> None:
    whole = {"a": b"first\r\n--front", "b": b"second"}
    pieces = [TWO[start : start + 7] for start in range(0, len(TWO), 7)]
    for count in range(len(pieces) + 1):
        for name in ("a", "b"):
            gateway.put(name, OLD)
        answer = await send(gateway, [*pieces[:count], ConnectionError()])
        assert (answer.status, answer.json()["code"]) == (400, "invalid-request")  # it may still be listening
        sent = sum(map(len, pieces[:count]))
        ended = [name for name, end in (("a", FIRST_END), ("b", SECOND_END)) if sent >= end]
        assert stored(gateway) == {name: whole[name] if name in ended else OLD for name in whole}, count
    assert gateway.left_over == []


async def test_a_client_that_stops_sending_is_reported(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(middleware, "DRAINED_SECONDS", 0.05)
    gateway.put("b", OLD)

    async def stall() -> None:
        await asyncio.Event().wait()

    answer = await send(gateway, [TWO[: SECOND_END - 5], stall])
    assert (answer.status, answer.json()["code"]) == (408, "timeout")
    assert (answer.json()["stored"], answer.json()["failed"]) == (["a"], ["b"])
    assert stored(gateway) == {"a": b"first\r\n--front", "b": OLD}
    assert gateway.left_over == []


async def test_a_provider_that_fails_later_on_is_reported_with_what_is_stored(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = LocalProvider.write

    async def failing(self: LocalProvider, path: Any, chunks: Any, *given: Any, **options: Any) -> Any:
        if path.name == "b":
            async for _ in chunks:
                raise ProviderUnavailable("The storage is out of reach.", retry_after=7)
        return await write(self, path, chunks, *given, **options)

    monkeypatch.setattr(LocalProvider, "write", failing)
    response = await gateway.upload("", {"a": b"1", "b": b"2", "c": b"3"})
    assert (response.status_code, response.json()["code"]) == (503, "provider-unavailable")
    assert response.headers["Retry-After"] == "7"
    assert response.json()["failed"] == ["b"]
    # What comes after the file that failed may have been stored at the same time.
    assert response.json()["stored"] in (["a"], ["a", "c"])
    assert sorted(stored(gateway)) == response.json()["stored"]


async def test_a_refusal_before_the_body_names_no_files(gateway: Gateway) -> None:
    response = await gateway.upload("", {"a": b"1"}, user="reader")
    assert response.status_code == 403
    assert not {"stored", "failed"} & response.json().keys()


async def test_nothing_is_seen_of_a_file_before_its_end(gateway: Gateway) -> None:
    gateway.put("a", OLD)
    seen: list[bytes] = []

    async def look() -> None:
        seen.append((await gateway.call("GET", "a")).content)
        assert [entry["name"] for entry in (await gateway.list()).json()["content"]] == ["/", "a"]

    content = os.urandom(2**20)
    body = form(named("a", content))
    steps: list[Step] = []
    for start in range(0, len(body), 2**18):
        steps += [look, body[start : start + 2**18]]
    assert (await send(gateway, steps)).status == 204
    assert set(seen) == {OLD}
    assert stored(gateway) == {"a": content}


async def test_a_body_that_is_all_there_is_not_waited_for(gateway: Gateway) -> None:
    async def never() -> None:
        pytest.fail("the gateway asked for more than Content-Length says")

    answer = await send(gateway, [TWO[:40], TWO[40:], never], ("Content-Length", str(len(TWO))))
    assert answer.status == 204
    assert stored(gateway) == {"a": b"first\r\n--front", "b": b"second"}
