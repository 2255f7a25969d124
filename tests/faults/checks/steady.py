"""Memory stays the same under a steady load: mixed requests for hours, or one kind of them alone."""

import asyncio
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from functools import partial

from ...gateways import FILES
from ..figures import Effort, Figure, Line, Lines, none_of
from ..processes import TunedGateway
from ..raw_http import TRANSPORT, Wire, get, head
from .floods import credentials, sign_in
from .memory import MIB

_CLIENTS = 8
_FILES = 200
_GROWTH = 8
"""Mebibytes, in the second half of the requests."""
_CONTENT = b"x" * 10_000


def _kinds(gateway: TunedGateway) -> dict[str, Callable[[int], bytes]]:
    token = gateway.token
    client, password = credentials(gateway)

    def tus(number: int) -> bytes:
        named = {"filename": f"tus-{number % _FILES}", "onConflict": "replace"}
        metadata = ",".join(f"{key} {b64encode(value.encode()).decode()}" for key, value in named.items())
        lines = ("Tus-Resumable: 1.0.0", f"Upload-Length: {len(_CONTENT)}", f"Upload-Metadata: {metadata}")
        content = ("Content-Type: application/offset+octet-stream", f"Content-Length: {len(_CONTENT)}")
        return head("POST", "/backend/1.0.0/uploads", token, *lines, *content) + _CONTENT

    def put(number: int) -> bytes:
        target = f"{FILES}/put-{number % _FILES}"
        return head("PUT", target, token, f"Content-Length: {len(_CONTENT)}") + _CONTENT

    return {
        "download": lambda number: get(f"{FILES}/files/{number % _FILES}", token),
        "range": lambda number: get(f"{FILES}/files/{number % _FILES}", token, f"Range: bytes={number % 99}-"),
        "list": lambda _: get(f"{FILES}/files?size=100", token),
        "stat": lambda number: get(f"{FILES}/files/{number % _FILES}?action=STAT", token),
        "put": put,
        "tus": tus,
        "search": lambda number: get(f"{FILES}/?action=SEARCH&name=*{number % 100}*", token),
        "zip": lambda number: get(f"{FILES}/few?action=ZIP", token),
        "missing": lambda number: get(f"{FILES}/missing/{number}", token),
        "sign-in": lambda _: sign_in(client, "web", password, "127.0.0.1").replace(b"Connection: close\r\n", b""),
    }


_RARELY = {"sign-in": 20, "search": 4, "zip": 4}
"""They take long: one in so many rounds."""


async def steady(effort: Effort, only: str = "") -> list[Figure]:
    requests = effort.requests or effort.of(600, 20_000 if only else 500_000)
    async with effort.gateway(environment={"PORTICO_TRASH_RETENTION": "0"}) as set_:
        gateway = set_.gateway
        for folder, files in (("files", _FILES), ("few", 3)):
            (gateway.files / "web" / folder).mkdir(parents=True)
            for number in range(files):
                (gateway.files / "web" / folder / f"{number}").write_bytes(_CONTENT)
        kinds = _kinds(gateway)
        chosen = [
            request
            for round_ in range(20)
            for kind, request in kinds.items()
            if kind == only or not (only or round_ % _RARELY.get(kind, 1))
        ]
        statuses: Counter[int | str] = Counter()
        numbers = iter(range(requests))
        resident: list[float] = []

        async def client() -> None:
            wire: Wire | None = None
            for number in numbers:
                if number % (requests // 10) == 0:
                    resident.append(gateway.resident() / MIB)
                    effort.say(f"{only or 'mixed'}: {number:,} requests, {resident[-1]:.1f} MiB")
                try:
                    wire = wire or await Wire.to(gateway.port)
                    await wire.send(chosen[number % len(chosen)](number))
                    statuses[(await wire.answer()).status] += 1
                except TRANSPORT as error:
                    statuses[type(error).__name__] += 1
                    wire = None
            if wire:
                await wire.close()

        await asyncio.gather(*(client() for _ in range(_CLIENTS)))
        resident.append(gateway.resident() / MIB)
    word = f"{requests:,} requests ({only or 'mixed'})"
    odd = [f"{times} × {status}" for status, times in statuses.items() if status not in (200, 201, 204, 206, 404)]
    grown = resident[-1] - resident[len(resident) // 2]
    shown = " → ".join(f"{each:.0f}" for each in resident)
    return [
        none_of(f"{word}: answers that are wrong", requests, odd),
        Figure(f"{word}: growth in the second half", f"≤ {_GROWTH} MiB", f"{grown:.1f} MiB: {shown}", grown <= _GROWTH),
    ]


def _alone(kind: str) -> Line:
    return partial(steady, only=kind)


LINES: Lines = {
    "steady": steady,
    **{f"steady-{kind}": _alone(kind) for kind in ("download", "tus", "search", "zip", "sign-in", "missing")},
}
