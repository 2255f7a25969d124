"""What the tests of resumable uploads do, and what they ask a proxy."""

import random
from pathlib import Path
from typing import Any

import pytest

from portico.client import Client, Receipt, Temporary

from ...servers.proxy import Call, FaultProxy, Torn
from ..faults import AWAY

MIB = 2**20
PART = MIB
CONTENT = random.Random(8).randbytes(5 * MIB + 321)
UPLOADS = "/backend/1.0.0/uploads"


def is_part(call: Call) -> bool:
    return call.method == "PATCH"


def is_question(call: Call) -> bool:
    return call.method == "HEAD" and call.path.startswith(UPLOADS)


def is_creation(call: Call) -> bool:
    return call.method == "POST" and call.path == UPLOADS


def methods(proxy: FaultProxy) -> list[str]:
    """Of the requests to uploads."""
    return [call.method for call in proxy.calls if call.path.startswith(UPLOADS)]


def sent(proxy: FaultProxy) -> list[tuple[int, int]]:
    """The parts that were begun, by offset and size."""
    return [
        (int(call.headers["upload-offset"]), int(call.headers["content-length"]))
        for call in proxy.calls
        if is_part(call)
    ]


def interrupted(client: Client, proxy: FaultProxy, local: Path, path: str = "/file", **options: Any) -> None:
    """An upload that fails for good with two and a half parts sent."""
    proxy.on(lambda call: is_part(call) and call.headers["upload-offset"] == str(2 * PART), Torn(PART // 2))
    proxy.on(lambda call: 2 * PART in dict(sent(proxy)), AWAY, turns=9)
    with pytest.raises(Temporary):
        client.upload(local, path, **options)
    proxy.forget()
    proxy.calls.clear()


class Resumptions:
    def __init__(self) -> None:
        self.found: list[tuple[str, int, int]] = []
        self.receipts: list[Receipt] = []

    def upload(self, client: Client, local: Path, path: str = "/file", **options: Any) -> None:
        client.upload_all(
            [(local, path)], resumed=lambda *facts: self.found.append(facts), stored=self.receipts.append, **options
        )

    @property
    def offset(self) -> int:
        ((_, offset, size),) = self.found
        assert size == len(CONTENT)
        assert [receipt.resumed for receipt in self.receipts] == [offset]
        return offset
