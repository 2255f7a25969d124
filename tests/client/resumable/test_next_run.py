"""Large files in parts: another run goes on where the last one ended."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from portico.client import Client, StorageFull, Temporary

from ...gateways import WAIT, Gateway
from ...servers.proxy import FaultProxy, Lost, Reply
from ..conftest import MakeClient, both_clients
from ..faults import AWAY
from .actions import CONTENT, PART, UPLOADS, Resumptions, interrupted, is_part, is_question, methods


@both_clients
@pytest.mark.parametrize("verify", [False, True])
def test_another_run_goes_on(
    through: Callable[[], Client],
    make: MakeClient,
    proxy: FaultProxy,
    notes: Path,
    root: Path,
    large: Path,
    resumed: Resumptions,
    verify: bool,
) -> None:
    interrupted(through(), proxy, large, verify=verify)
    resumed.upload(make(resume_folder=notes), large, verify=verify)  # at another address
    assert 2 * PART <= resumed.offset <= 2 * PART + PART // 2
    assert (root / "file").read_bytes() == CONTENT
    assert list(notes.iterdir()) == []


def test_another_call_goes_on(
    proxied: Client, proxy: FaultProxy, root: Path, large: Path, resumed: Resumptions
) -> None:
    interrupted(proxied, proxy, large)
    resumed.upload(proxied, large)
    assert resumed.offset >= 2 * PART
    assert (root / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("other", ["source", "name", "conflict", "unverified"])
def test_what_is_not_the_same_begins_anew(
    through: Callable[[], Client],
    proxy: FaultProxy,
    gateway: Gateway,
    root: Path,
    large: Path,
    resumed: Resumptions,
    other: str,
) -> None:
    interrupted(through(), proxy, large)
    content, path = CONTENT, "/file"
    options: dict[str, Any] = {}
    if other == "source":
        content = CONTENT[::-1]
        times = os.stat(large)
        large.write_bytes(content)
        os.utime(large, ns=(times.st_atime_ns, times.st_mtime_ns))
    elif other == "name":
        path = "/other"
    elif other == "conflict":
        options = {"on_conflict": "rename"}
    else:
        options = {"verify": True}
    resumed.upload(through(), large, path, **options)
    assert resumed.found == []
    assert (root / path[1:]).read_bytes() == content
    if other in ("source", "unverified"):
        assert methods(proxy)[:2] == ["DELETE", "POST"]
        assert gateway.staged == []
    else:
        resumed.upload(through(), large)
        assert resumed.found[0][1] >= 2 * PART


def test_one_that_has_expired_begins_anew(
    through: Callable[[], Client],
    proxy: FaultProxy,
    gateway: Gateway,
    notes: Path,
    root: Path,
    large: Path,
    resumed: Resumptions,
) -> None:
    interrupted(through(), proxy, large)
    (note,) = notes.iterdir()
    text = note.read_text()
    upload = text.split('"id": "')[1].split('"')[0]
    with gateway.signed_in(headers={"Tus-Resumable": "1.0.0"}) as administrator:
        assert administrator.delete(f"{UPLOADS}/{upload}").status_code == 204
    resumed.upload(through(), large)
    assert resumed.found == []
    assert methods(proxy)[:2] == ["HEAD", "POST"]
    assert (root / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("still_there", [True, False])
def test_one_that_was_stored_when_the_run_ended(
    through: Callable[[], Client], proxy: FaultProxy, root: Path, large: Path, resumed: Resumptions, still_there: bool
) -> None:
    proxy.on(lambda call: is_part(call) and int(call.headers["content-length"]) < PART, Lost())
    proxy.on(is_question, AWAY, turns=9)
    with pytest.raises(Temporary):
        through().upload(large, "/file", on_conflict="rename")
    proxy.forget()
    assert (root / "file").read_bytes() == CONTENT
    if not still_there:
        (root / "file").unlink()
    resumed.upload(through(), large, on_conflict="rename")
    assert [path.name for path in root.iterdir()] == ["file"]
    assert (root / "file").read_bytes() == CONTENT
    assert ("PATCH" in methods(proxy)) != still_there


def test_what_concerns_everything_is_kept_for_later(
    through: Callable[[], Client], proxy: FaultProxy, root: Path, large: Path, resumed: Resumptions
) -> None:
    full = Reply(507, {}, b'{"code":"storage-full","requestId":"x"}')
    proxy.on(lambda call: is_part(call) and call.headers["upload-offset"] == str(3 * PART), full)
    with pytest.raises(StorageFull):
        through().upload(large, "/file")
    resumed.upload(through(), large)
    assert resumed.offset == 3 * PART


def test_two_at_once(make: MakeClient, gateway: Gateway, notes: Path, root: Path, large: Path) -> None:
    errors: list[BaseException] = []
    both = threading.Barrier(2)

    def send() -> None:
        try:
            client = make(resume_folder=notes)
            client.login()
            both.wait(WAIT)
            client.upload(large, "/file")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert not errors
    assert (root / "file").read_bytes() == CONTENT
    assert gateway.staged == []
    assert list(notes.iterdir()) == []


def test_a_folder_that_cannot_be_written(make: MakeClient, root: Path, large: Path) -> None:
    make(resume_folder=large / "notes").upload(large, "/file")
    assert (root / "file").read_bytes() == CONTENT
