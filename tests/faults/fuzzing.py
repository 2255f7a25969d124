"""Generated cases for the multipart reader and for `Path`, fast enough for a million of them.

Each function tries the cases of one seed and returns what was wrong. Nothing here waits, so the reader is driven by
hand, without an event loop.
"""

import os
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from portico.api.multipart import MultipartReader
from portico.model.errors import InvalidPath, PorticoError
from portico.model.paths import Path, name_flaw

T = TypeVar("T")

FRAGMENTS = (
    b".. %2e%2e .%2e %2E%2E %2e . ... ..%2f ..%5c ..\\ %252e%252e %25252e %c0%ae%c0%ae %e0%80%ae %c0%af %ff \xff "
    b"%ef%bc%8e%ef%bc%8e %ef%bc%8f %e2%88%95 %00 %0d%0a %09 %7f %c2%85 / // /// %2f %2F %5c \\ ./ /. "
    b"al alice alice.txt ice canary own sub secret link files C: c:%5c file: ~ ~root $HOME %24%7BHOME%7D "
    b".portico~staging .portico~ %2eportico~staging .portico%7e etc passwd proc self fd 0 "
    b"%u002e %%2e % %2 ; ;x=/../ ? # %20 %20.. ..%20 * | & ' %22 CON NUL con.txt a:b \xc3\xa9 e%cc%81"
).split(b" ")
"""Hostile pieces of a raw path, and plain ones."""

HANG = 0.5
"""Seconds of processor time that no small case may take."""

_HEADER = b"Content-Disposition: form-data; "
_PIECES: Sequence[bytes] = (
    b"--b",
    b"--b\r\n",
    b"\r\n--b\r\n",
    b"\r\n--b--",
    b"\r\n--b--\r\n",
    b"--b--\r\n",
    b"\r\n",
    b"\r",
    b"\n",
    b"\r\n\r\n",
    b"--",
    b"-",
    b"b",
    b"\0",
    b"x",
    b"\xff\xfe",
    b": ",
    b";",
    b'"',
    b"\\",
    _HEADER,
    _HEADER + b'name="data"; filename="a.txt"\r\n',
    _HEADER + b'name="data"; filename="a.txt"\r\n\r\n',
    b'--b\r\nContent-Disposition: form-data; name="data"; filename="n"\r\n\r\n',
    b'name="data"',
    b'filename="b"',
    b"filename*=UTF-8''%e2%82%ac",
    b'filename="..%2f"',
    b'filename="\xc3\xa9"',
    b"Content-Type: text/plain\r\n",
    b"Content-Transfer-Encoding: base64\r\n",
    b"X: " + b"y" * 300 + b"\r\n",
    b"z" * 1000,
)
_CONTENT_TYPES = (
    "multipart/form-data; boundary=b",
    'multipart/form-data; boundary="b"',
    "Multipart/Form-Data;boundary=b; charset=x",
)


def _whole_form(random: Random) -> bytes:
    parts = []
    for number in range(random.randint(1, 4)):
        content = b"".join(
            random.choices((b"x", b"\r", b"\n", b"\r\n", b"--", b"\r\n--", b"\0", b"b" * 50), k=random.randint(0, 8))
        )
        parts.append(b'--b\r\n%bname="data"; filename="f%d"\r\n\r\n%b\r\n' % (_HEADER, number, content))
    return b"".join(parts) + b"--b--\r\n"


def _mutated(random: Random, body: bytes) -> bytes:
    data = bytearray(body)
    for _ in range(random.randint(0, 4)):
        at, end = sorted(random.choices(range(len(data) + 1), k=2))
        match random.randrange(5):
            case 0:
                del data[at : min(end, at + 20)]
            case 1:
                data[at:at] = random.choice(_PIECES)
            case 2:
                data[at:at] = data[at:end]
            case 3 if data:
                data[at % len(data)] = random.randrange(256)
            case _:
                del data[end:]
    return bytes(data)


def _body(random: Random) -> bytes:
    if random.random() < 0.5:
        return _mutated(random, _whole_form(random))
    return b"".join(random.choices(_PIECES, k=random.randint(0, 14)))


def _cut(random: Random, body: bytes) -> list[list[bytes]]:
    """The same body in other chunks: at one place, at several, and for a short one at every place."""
    cuts = [sorted({0, random.randint(0, len(body)), len(body)})]
    cuts.append(sorted({0, *(random.randint(0, len(body)) for _ in range(6)), len(body)}))
    if len(body) <= 120:
        cuts.append(list(range(len(body) + 1)))
    return [[body[start:end] for start, end in pairwise(cut)] for cut in cuts]


async def _read(chunks: Sequence[bytes], content_type: str) -> tuple[object, ...]:
    """All parts that ended, and how it ended."""

    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            if chunk:
                yield chunk

    found: list[tuple[str, str | None, bytes]] = []
    try:
        reader = MultipartReader(body(), content_type, max_files=3)
        while part := await reader.next_file():
            content = b"".join([chunk async for chunk in part.chunks])
            found.append((part.filename, part.content_type, content))
    except PorticoError as error:
        return (*found, type(error).__name__)
    return tuple(found)


def driven(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it waits for something")


def multipart(seed: int, cases: int) -> list[str]:
    random = Random(seed)
    wrong = []
    for _ in range(cases):
        body, content_type = _body(random), random.choice(_CONTENT_TYPES)
        try:
            whole = driven(_read([body], content_type))
            for chunks in _cut(random, body):
                if (other := driven(_read(chunks, content_type))) != whole:
                    wrong.append(f"{chunks!r}: {other!r}, in one: {whole!r}")
            if (took := _seconds(body, content_type)) > HANG:
                wrong.append(f"{body!r} takes {took:.1f} s")
        except Exception as error:
            wrong.append(f"{body!r}: {type(error).__name__}: {error}")
    return wrong


def _seconds(body: bytes, content_type: str) -> float:
    """What reading it takes: the best of three, since a garbage collection may fall into one of them."""
    costs = []
    for _ in range(3):
        began = time.thread_time()
        driven(_read([body], content_type))
        costs.append(time.thread_time() - began)
        if costs[-1] <= HANG:
            break
    return min(costs)


def _raw_paths(random: Random, cases: int) -> Iterator[bytes]:
    for _ in range(cases):
        if random.random() < 0.2:
            yield random.randbytes(random.randint(0, 12))
        elif random.random() < 0.3:
            text = "".join(
                chr(random.choice((random.randrange(0x80), random.randrange(0x3000), random.randrange(0xD800))))
                for _ in range(random.randint(1, 6))
            )
            yield b"".join(b"%%%02x" % byte for byte in text.encode())
        else:
            yield random.choice((b"/", b"")).join(random.choices(FRAGMENTS, k=random.randint(0, 7)))


def _parsed(raw: bytes) -> Path | None:
    try:
        return Path.from_request(raw)
    except InvalidPath:
        return None


def paths(seed: int, cases: int) -> list[str]:
    random = Random(seed)
    wrong = []
    for raw in _raw_paths(random, cases):
        try:
            path = _parsed(raw)
            if path is None:
                continue
            text = str(path)
            if any(name_flaw(name) for name in path.segments):
                wrong.append(f"{raw!r} has a segment that is no name: {path}")
            if os.path.normpath(f"/top/of/al{text}") != f"/top/of/al{text}".rstrip("/"):
                wrong.append(f"{raw!r} leads elsewhere: {path}")
            if Path.parse(text) != path:
                wrong.append(f"{raw!r} is not read back from {text!r}")
            escaped = b"".join(b"%%%02X" % byte for byte in unquote_to_bytes(raw))
            if _parsed(escaped) != path:
                wrong.append(f"{raw!r} is another path when all of it is escaped")
        except Exception as error:
            wrong.append(f"{raw!r}: {type(error).__name__}: {error}")
    return wrong
