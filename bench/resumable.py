"""A resumable upload in parts, on one connection: what a tus client does on a good line."""

import re
import time
from base64 import b64encode

from bench.load import Target, exchange, request
from portico.api.tus import MEDIA_TYPE, UPLOADS

_LOCATION = re.compile(rb"\r\nlocation: *([^\r]+)", re.IGNORECASE)


def send_parts(target: Target, headers: dict[str, str], name: str, file: str, size: int, part: int) -> float:
    """Seconds until the file is stored. Bodies are sent by `sendfile`, as those of other uploads are."""
    fixed = {**headers, "Tus-Resumable": "1.0.0"}
    metadata = f"filename {b64encode(name.encode()).decode()}"
    began = time.perf_counter()
    with target.connect() as connection, open(file, "rb") as content:
        creation = {**fixed, "Upload-Length": str(size), "Upload-Metadata": metadata}
        found = _LOCATION.search(exchange(connection, request("POST", UPLOADS, creation)))
        assert found
        address = found[1].decode()
        for offset in range(0, size, part):
            length = min(size - offset, part)
            appended = {
                **fixed,
                "Upload-Offset": str(offset),
                "Content-Type": MEDIA_TYPE,
                "Content-Length": str(length),
            }
            connection.sendall(request("PATCH", address, appended))
            connection.sendfile(content, offset, length)
            exchange(connection, b"")
    return time.perf_counter() - began
