"""A resumable upload in parts, on one connection: what a tus client does on a good line."""

import mmap
import time
from base64 import b64encode
from http.client import HTTPConnection

from bench.load import Target
from portico.api.tus import MEDIA_TYPE, UPLOADS


def send_parts(target: Target, headers: dict[str, str], name: str, file: str, size: int, part: int) -> float:
    """Seconds until the file is stored."""
    connection = HTTPConnection(target.host, target.port)
    fixed = {**headers, "Tus-Resumable": "1.0.0"}
    began = time.perf_counter()
    with open(file, "rb") as source, mmap.mmap(source.fileno(), 0, prot=mmap.PROT_READ) as content:
        metadata = f"filename {b64encode(name.encode()).decode()}"
        connection.request(
            "POST", UPLOADS, headers={**fixed, "Upload-Length": str(size), "Upload-Metadata": metadata}
        )
        created = connection.getresponse()
        created.read()
        assert created.status == 201, created.status
        address = created.headers["Location"]
        for offset in range(0, size, part):
            with memoryview(content)[offset : min(size, offset + part)] as body:
                connection.request(
                    "PATCH",
                    address,
                    body,  # type: ignore[arg-type]
                    {
                        **fixed,
                        "Upload-Offset": str(offset),
                        "Content-Type": MEDIA_TYPE,
                        "Content-Length": str(len(body)),
                    },
                )
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 204, answer.status
    connection.close()
    return time.perf_counter() - began
