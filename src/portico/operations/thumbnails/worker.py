"""Makes thumbnails in processes that can do nothing else. Run as a program: it imports nothing of Portico.

Standard input is a socket over which the gateway passes one more socket for each file. A child is forked for each: it
limits itself, reads the request and the file, answers and ends, so nothing of one file is left for the next.

The request is a line of JSON, followed by the file: {"kind", "length", "size", "page"}. The answer is a line of JSON,
{"pages", "lengths"}, followed by the pictures as WebP. There is no answer if a picture cannot be made.
"""

import ctypes
import json
import os
import resource
import signal
import socket
import sys
import time
from contextlib import suppress
from io import BytesIO
from types import ModuleType
from typing import Any

MAX_MEMORY = 384 * 2**20
"""Address space of a child, in bytes."""
MAX_CPU_SECONDS = 10
MAX_SECONDS = 30
MAX_PIXELS = 50_000_000
MAX_BYTES = 32 * 2**20
"""Of a file."""

_FORMATS = ("GIF", "JPEG", "PNG", "WEBP")
_PAGES = 5
"""How many pages of a document are made at once: it is read as a whole for each time."""
_PAGES_SECONDS = 3.0
_NICENESS = 10


def serve(control: socket.socket, pdf: ModuleType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:  # the gateway has ended
            return
        for descriptor in descriptors:
            try:
                child = os.fork()
            except OSError:  # the gateway sees that there is no answer
                child = 1
            if child == 0:
                control.close()
                _work(socket.socket(fileno=descriptor), pdf)
            os.close(descriptor)


def _work(connection: socket.socket, pdf: ModuleType | None) -> None:
    """In the child. Never returns."""
    try:
        _limit()
        request, content = _read(connection)
        pages, pictures = _pictures(request, content, pdf)
        head = json.dumps({"pages": pages, "lengths": [len(picture) for picture in pictures]})
        connection.sendall(head.encode() + b"\n" + b"".join(pictures))
        os._exit(0)
    except BaseException:  # whatever a hostile file causes: no answer
        os._exit(1)


def _limit() -> None:
    signal.alarm(MAX_SECONDS)
    with suppress(OSError):  # a sandbox may forbid it
        os.nice(_NICENESS)  # the gateway comes first
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    for limited, most in (
        (resource.RLIMIT_AS, MAX_MEMORY),
        (resource.RLIMIT_CPU, MAX_CPU_SECONDS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 0),  # no further file, socket or process
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(limited, (most, most))


def _read(connection: socket.socket) -> tuple[dict[str, Any], bytes]:
    received = bytearray()
    while (line := received.find(b"\n")) < 0:
        received += _some(connection)
    request = json.loads(received[:line])
    length = request["length"]
    if length > MAX_BYTES:
        raise ValueError
    del received[: line + 1]
    while len(received) < length:
        received += _some(connection)
    return request, bytes(received)


def _some(connection: socket.socket) -> bytes:
    if data := connection.recv(2**18):
        return data
    raise EOFError


def _pictures(request: dict[str, Any], content: bytes, pdf: ModuleType | None) -> tuple[int, list[bytes]]:
    """The number of pages, and pictures of those from the one on that is asked for."""
    size, page = request["size"], request["page"]
    if request["kind"] != "pdf":
        return 1, [_encoded(_thumbnail(content, size))]
    if pdf is None:
        raise ValueError
    with pdf.PdfDocument(content) as document:
        began = time.process_time()
        pictures: list[bytes] = []
        for index in range(page - 1, min(len(document), page - 1 + (_PAGES if size > 256 else 1))):
            if pictures and time.process_time() - began > _PAGES_SECONDS:
                break
            pictures.append(_encoded(_rendered(document[index], size)))
        return len(document), pictures


def _rendered(page: Any, size: int) -> Any:
    width, height = page.get_size()
    scale = min(size / max(width, 1), size / max(height, 1), 8)
    # Forms may have scripts, and are not initialised; `no_smoothtext` and others keep their defaults.
    return page.render(scale=scale, may_draw_forms=False, rev_byteorder=True).to_pil()


def _thumbnail(content: bytes, size: int) -> Any:
    from PIL import Image, ImageOps

    with Image.open(BytesIO(content), formats=_FORMATS) as image:
        if image.width * image.height > MAX_PIXELS:
            raise ValueError
        picture: Image.Image = image
        if picture.mode in ("P", "PA"):  # a palette cannot be scaled
            picture = picture.convert("RGBA" if "transparency" in image.info else "RGB")
        picture.thumbnail((size, size), reducing_gap=2.0)
        return ImageOps.exif_transpose(picture)


def _encoded(picture: Any) -> bytes:
    if picture.mode not in ("RGB", "RGBA"):
        picture = picture.convert("RGBA" if picture.mode in ("LA", "La", "RGBa") else "RGB")
    made = BytesIO()
    # Without the metadata, which may tell where a photograph was taken.
    picture.save(made, "WEBP", quality=78, method=2, exif=b"", icc_profile=b"", xmp=b"")
    return made.getvalue()


def _prepare() -> ModuleType | None:
    """Import everything now: children can open no file. The renderer of documents is returned, if there is one."""
    import encodings.idna  # noqa: F401

    from PIL import Image, MpoImagePlugin, TiffImagePlugin, WebPImagePlugin  # noqa: F401

    Image.preinit()  # GIF, JPEG and PNG
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    exif = Image.Exif()
    exif[0x0112] = 6  # turned
    for mode, name in (("P", "GIF"), ("P", "PNG"), ("RGBA", "PNG"), ("RGB", "JPEG"), ("CMYK", "JPEG"), ("RGB", "WEBP")):
        sample = BytesIO()
        Image.new(mode, (9, 9)).save(sample, name, **({} if name == "GIF" else {"exif": exif}))
        _encoded(_thumbnail(sample.getvalue(), 4))
    try:
        import pypdfium2
    except ImportError:
        return None
    pdf: ModuleType = pypdfium2
    return pdf


if __name__ == "__main__":
    sys.path.extend(sys.argv[1:])
    serve(socket.socket(fileno=0), _prepare())
