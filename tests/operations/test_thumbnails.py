"""Thumbnails are made in processes of their own, with limits; and kept in a folder of bounded size."""

import asyncio
import os
import re
import socket
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from portico.model.errors import Unavailable
from portico.operations.thumbnails import process as thumbnail_process
from portico.operations.thumbnails.cache import Cached, ThumbnailCache
from portico.operations.thumbnails.process import Pictures, Request, ThumbnailProcess

from ..gateways import lives, wait_until


@pytest.fixture
async def process() -> AsyncIterator[ThumbnailProcess]:
    process = ThumbnailProcess()
    yield process
    process.close()


async def parts(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 2**16):
        yield content[start : start + 2**16]


async def made(
    process: ThumbnailProcess, content: bytes, kind: str = "image", size: int = 256, page: int = 1
) -> Pictures | None:
    request = Request(kind, len(content), size, page)
    async with process.turn(("user",)):
        return await process.make(request, parts(content))  # type: ignore[arg-type]


def encoded(image: Image.Image, name: str, **options: Any) -> bytes:
    content = BytesIO()
    image.save(content, name, **options)
    return content.getvalue()


def png(width: int, height: int, rows: int | None = None, channels: int = 3) -> bytes:
    """Of these dimensions, with this many rows of zeros: a few kilobytes, whatever it unpacks to."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    row = bytes(1 + width * channels)
    data = b"".join(packer.compress(row) for _ in range(height if rows is None else rows)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def pdf(pages: int = 1, *, script: str = "app.alert('owned')") -> bytes:
    """With a script that a viewer would run when it is opened."""
    kids = " ".join(f"{5 + index} 0 R" for index in range(pages))
    page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R >>"
    drawing = "1 0 0 rg 20 20 200 100 re f"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R /OpenAction 3 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>",
        f"<< /Type /Action /S /JavaScript /JS ({script.replace('(', '[').replace(')', ']')}) >>",
        f"<< /Length {len(drawing)} >>\nstream\n{drawing}\nendstream",
        *[page] * pages,
    ]
    content = b"%PDF-1.7\n"
    offsets = []
    for number, each in enumerate(objects, 1):
        offsets.append(len(content))
        content += f"{number} 0 obj\n{each}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    return (
        content
        + (
            f"xref\n0 {size}\n0000000000 65535 f \n{table}"
            f"trailer << /Size {size} /Root 1 0 R >>\nstartxref\n{len(content)}\n%%EOF\n"
        ).encode()
    )


async def test_every_format_and_no_other(process: ThumbnailProcess) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    exif[0x8825] = {1: "N"}  # where it was taken
    images = {
        "JPEG": encoded(Image.new("RGB", (800, 400), "red"), "JPEG", exif=exif),
        "PNG": encoded(Image.new("RGBA", (800, 400), (0, 0, 0, 0)), "PNG"),
        "GIF": encoded(Image.new("P", (800, 400)), "GIF", save_all=True, append_images=[Image.new("P", (800, 400), 7)]),
        "WEBP": encoded(Image.new("RGB", (800, 400)), "WEBP"),
    }  # fmt: skip
    for name, content in images.items():
        pictures = await made(process, content)
        assert pictures is not None, name
        assert pictures.pages == 1
        with Image.open(BytesIO(pictures.content[0])) as image:
            assert image.format == "WEBP"
            assert image.size == ((128, 256) if name == "JPEG" else (256, 128))
            assert not image.getexif()
            assert image.mode == ("RGBA" if name == "PNG" else "RGB")
    for name in ("BMP", "TIFF", "PPM", "ICO", "PDF"):
        assert await made(process, encoded(Image.new("RGB", (64, 64)), name)) is None, name


async def test_the_pages_of_a_document(process: ThumbnailProcess) -> None:
    first = await made(process, pdf(8), "pdf", 1600)
    assert first is not None
    assert (first.pages, len(first.content)) == (8, 5)
    last = await made(process, pdf(8), "pdf", 1600, 6)
    assert last is not None
    assert len(last.content) == 3
    with Image.open(BytesIO(last.content[0])) as image:
        assert image.size == (1600, 1067)
        red, green, _ = image.convert("RGB").getpixel((500, 700))  # type: ignore[misc]
        assert red > 200 > green
    assert await made(process, pdf(8), "pdf", 1600, 9) is None
    assert await made(process, b"%PDF-1.7\n" + os.urandom(9999), "pdf", 1600) is None


async def test_hostile_files_end_their_own_process_only(process: ThumbnailProcess) -> None:
    hostile = {
        "declares more than it has": png(60_000, 60_000, rows=10),
        "large": png(9_000, 9_000),
        "needs too much memory": png(7_000, 7_000, channels=4),
        "cut": encoded(Image.effect_noise((900, 900), 50), "PNG")[:2000],
        "markup": b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        "polyglot": b"GIF89a/*" + b"\0" * 500 + b"*/=1;alert(1)//",
        "noise": os.urandom(200_000),
        "empty": b"",
        "document": pdf(),
    }
    for name, content in hostile.items():
        assert await made(process, content) is None, name
    frames = [Image.new("P", (64, 64), index % 256) for index in range(2000)]
    many = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert await made(process, many) is not None, "only the first one is looked at"
    assert await made(process, encoded(Image.new("RGB", (8, 8)), "PNG")) is not None, "the next file is a new start"


async def test_the_loop_goes_on_and_few_work_at_once(process: ThumbnailProcess) -> None:
    content = encoded(Image.effect_noise((3000, 2000), 50).convert("RGB"), "JPEG")
    working = asyncio.gather(*(made(process, content) for _ in range(8)))
    rounds, most = 0, 0
    while not working.done():
        await asyncio.sleep(0)
        rounds += 1
        if process._process and rounds % 50 == 0:
            file = Path(f"/proc/{process._process.pid}/task/{process._process.pid}/children")
            most = max(most, len(file.read_text().split()))
    assert all(await working)
    assert rounds > 100
    assert 1 <= most <= thumbnail_process.AT_ONCE


async def test_a_worker_that_was_killed_is_started_again(process: ThumbnailProcess) -> None:
    small = encoded(Image.new("RGB", (8, 8)), "PNG")
    assert await made(process, small)
    assert process._process
    process._process.kill()
    process._process.wait()
    assert await made(process, small)


async def test_the_worker_has_no_descriptors_and_no_environment(process: ThumbnailProcess) -> None:
    assert await made(process, encoded(Image.new("RGB", (8, 8)), "PNG"))
    assert process._process
    folder = f"/proc/{process._process.pid}"
    assert sorted(os.listdir(f"{folder}/fd")) == ["0", "1", "2"]
    assert Path(f"{folder}/environ").read_bytes() == b""
    pid = process._process.pid
    process.close()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the worker has ended")


async def test_too_many_that_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thumbnail_process, "_MAX_WAITING", 0)
    process = ThumbnailProcess()
    async with AsyncExitStack() as stack:
        for user in range(thumbnail_process.AT_ONCE):
            await stack.enter_async_context(process.turn((user,)))
        with pytest.raises(Unavailable):
            await stack.enter_async_context(process.turn(("late",)))


def test_an_answer_is_not_trusted() -> None:
    for answer in (b"", b"\n", b"[]\n", b'{"pages": 1, "lengths": [4]}\n<svg', b'{"pages": 1, "lengths": [-4]}\n',
                   b'{"pages": 1, "lengths": [4]}\nRIFF0000WEBP', b'{"pages":' * 9999):  # fmt: skip
        assert thumbnail_process._pictures(answer) is None
    assert thumbnail_process._pictures(b'{"pages": 9, "lengths": [12]}\nRIFF0000WEBP') == Pictures(9, [b"RIFF0000WEBP"])


def test_the_cache_is_bounded_and_keeps_what_is_used(tmp_path: Path) -> None:
    cache = ThumbnailCache(tmp_path / "thumbnails", 200_000)
    keys = [f"{index:064x}" for index in range(90)]
    for index, key in enumerate(keys):
        cache.put(key, Cached(b"x" * 5000, 3))
        for age, each in enumerate(keys[: index + 1]):  # as if they were made one after the other
            with_key = tmp_path / "thumbnails" / each[:2] / each
            if with_key.exists() and age:
                os.utime(with_key, (age, age))
        assert cache.get(keys[0]) == (b"x" * 5000, 3)
    kept = [path for path in (tmp_path / "thumbnails").rglob("*") if path.is_file()]
    assert sum(8192 for _ in kept) <= 200_000 * 17 / 16
    assert cache.get(keys[-1])
    assert cache.get(keys[1]) is None
    assert (tmp_path / "thumbnails").stat().st_mode & 0o077 == 0


def test_a_failure_is_remembered_for_a_day(tmp_path: Path) -> None:
    cache = ThumbnailCache(tmp_path, 10**6)
    cache.put("ab", Cached(b"", 0))
    assert cache.get("ab") == (b"", 0)
    os.utime(tmp_path / "ab" / "ab", (0, 0))
    assert cache.get("ab") is None


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ThumbnailCache(tmp_path / "file", 10**6)
    cache.put("ab", Cached(b"x", 1))
    assert cache.get("ab") is None
    cache.sweep()


async def test_the_child_of_a_file_ends_with_its_parent(process: ThumbnailProcess) -> None:
    ours, theirs = socket.socketpair()  # which never sends the file
    with ours, theirs:
        await process._submit(theirs)
        assert process._process
        parent = process._process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children")
        wait_until(children.read_text, "the child has begun")
        child = int(children.read_text())
        limits = Path(f"/proc/{child}/limits")
        wait_until(lambda: re.search(r"Max processes +0 ", limits.read_text()), "it has limited itself")
        process.close()
        wait_until(lambda: not lives(child), "the child has ended")
