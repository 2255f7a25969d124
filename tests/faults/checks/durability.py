"""204 means durable and listed: SIGKILL straight after the answer, and the order of system calls before it."""

import asyncio
import re
import shutil
import subprocess
from itertools import count
from pathlib import Path

from ..figures import Effort, Figure, Line, Lines, none_of
from ..processes import TunedGateway
from ..raw_http import Broken, Wire, form, post

AT_ONCE = 20


class Senders:
    """Clients who upload small files one after the other, until the gateway is gone."""

    def __init__(self, gateway: TunedGateway) -> None:
        self._gateway = gateway
        self._numbers = count()
        self.stored: dict[str, bytes] = {}
        self.enough = asyncio.Event()
        self._goal = 0

    async def send(self, more: int) -> None:
        """Return as soon as so many more were acknowledged; the senders go on until somebody ends the gateway."""
        self._goal = len(self.stored) + more
        self.enough.clear()
        self._tasks = [asyncio.ensure_future(self._send()) for _ in range(AT_ONCE)]
        waiting = asyncio.ensure_future(self.enough.wait())
        await asyncio.wait([waiting, *self._tasks], return_when=asyncio.FIRST_COMPLETED, timeout=120)
        waiting.cancel()

    async def ended(self) -> None:
        await asyncio.gather(*self._tasks)

    async def _send(self) -> None:
        try:
            wire = await Wire.to(self._gateway.port)
            try:
                while True:
                    name = f"{next(self._numbers):06}"
                    content = name.encode() * 50
                    await wire.send(post(self._gateway.token, form(name, content)))
                    answer = await wire.answer()
                    assert answer.status == 204, answer.body
                    self.stored[name] = content
                    if len(self.stored) >= self._goal:
                        self.enough.set()
            finally:
                wire.reset()
        except (ConnectionError, Broken, TimeoutError):
            self.enough.set()


async def acknowledged(effort: Effort, kind: str, tries: int, kills: int) -> list[Figure]:
    async with effort.gateway(kind=kind) as set_:
        senders = Senders(set_.gateway)
        missing: list[str] = []
        checked: set[str] = set()
        for number in range(kills):
            await senders.send(tries // kills)
            set_.gateway.kill()
            await senders.ended()
            set_.gateway.begin()
            listed = set(await set_.gateway.names())
            missing += [f"{name} is not listed" for name in senders.stored.keys() - listed]
            fresh = senders.stored.keys() - checked
            missing += await _differing(set_.gateway, {name: senders.stored[name] for name in fresh})
            checked |= fresh
            if number % 10 == 9:
                effort.say(f"{kind}: {len(senders.stored)} stored, killed {number + 1} times")
    total = len(senders.stored)
    return [
        none_of(f"{kind}: lost after 204 and SIGKILL ({kills} kills)", total, missing),
        Figure(f"{kind}: files acknowledged", f"≥ {tries}", str(total), total >= tries),
    ]


async def _differing(gateway: TunedGateway, files: dict[str, bytes]) -> list[str]:
    return [f"{name} differs" for name, content in files.items() if (await gateway.get(f"/{name}")).body != content]


async def traced(effort: Effort) -> list[Figure]:
    """The system calls of a real worker: content synced, name given, folder synced, and only then the answer."""
    tracer = shutil.which("strace")
    what = "local: uploads whose 204 came before fsync, link, fsync"
    if tracer is None:
        return [Figure(what, "0", "not measured", False, timed=True, cause="there is no strace here")]
    tries = effort.of(5, 500)
    async with effort.gateway() as set_:
        output = effort.new_folder() / "trace"
        worker = set_.gateway.workers()[0]
        calls = "trace=fsync,rename,renameat,renameat2,linkat,write,writev,sendto,sendmsg"
        tracing = subprocess.Popen(
            [tracer, "-f", "-s", "40", "-e", calls, "-o", str(output), "-p", str(worker)], stderr=subprocess.PIPE
        )
        try:
            assert tracing.stderr
            first = await asyncio.to_thread(tracing.stderr.readline)
            if b"attached" not in first:
                cause = f"strace may not attach here: {first.decode().strip()}"
                return [Figure(what, "0", "not measured", False, timed=True, cause=cause)]
            for number in range(tries):
                assert await set_.gateway.put(f"file-{number}", b"x" * 100) == 204
        finally:
            tracing.terminate()
            tracing.wait()
            if tracing.stderr:
                tracing.stderr.close()
    return [none_of(what, tries, _early(output, tries))]


def _early(trace: Path, tries: int) -> list[str]:
    """What the trace shows to be out of order. Uploads came one after the other, so the calls of each are in a row."""
    events: list[str] = []
    for line in trace.read_text(errors="replace").splitlines():
        if match := re.search(
            r"(fsync|rename|renameat|renameat2|linkat)\(.*= 0$|<\.\.\. (fsync|rename\w*|linkat)", line
        ):
            events.append((match[1] or match[2])[:6])
        elif "HTTP/1.1 204" in line:
            events.append("answer")
    wrong = []
    since: list[str] = []
    answers = 0
    for event in events:
        if event != "answer":
            since.append(event)
            continue
        answers += 1
        if since[-3:] != ["fsync", "linkat", "fsync"]:
            wrong.append(f"answer {answers} after {since}")
        since = []
    return wrong + [f"{answers} answers were seen of {tries}"] * (answers != tries)


def _acknowledged(kind: str, short: tuple[int, int], long: tuple[int, int]) -> Line:
    return lambda effort: acknowledged(effort, kind, *(long if effort.long else short))


LINES: Lines = {
    "durability-local": _acknowledged("local", (50, 1), (10_000, 100)),
    "durability-s3": _acknowledged("s3", (40, 1), (2_000, 20)),
    "durability-azure-blob": _acknowledged("azure-blob", (40, 1), (2_000, 20)),
    "durability-trace": traced,
}
