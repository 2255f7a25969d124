"""What nobody does by the thousand, and no peer has in this form: sessions, keys, links, the trash, unfinished uploads.
None of it may become slow unnoticed."""

import base64
import io
import json
import re
import time
from datetime import UTC, datetime
from functools import partial
from typing import Any

from PIL import Image

from bench.load import Rates, body_of, exchange, hammer, request
from bench.servers import FILES, Portico
from bench.sftpgo.arena import OURS, Arena
from bench.table import Contestant, Figure, Sample

READS, CHANGES = "account", "account-changes"
LINES = {
    READS: "sessions, keys, links, the trash, jobs, activity and thumbnails: read",
    CHANGES: "tickets, keys, links, sessions, unfinished uploads, the trash and rewinds: change",
}
_API = "/backend/1.0.0"
_READ = ("account", "account/sessions", "account/keys", "account/links", "trash", "jobs", "receipts/key")
_TURNS = 10
_TUS = {"Tus-Resumable": "1.0.0"}
_CONTENT = bytes(2048)
_LOCATION = re.compile(rb"\r\nlocation: *(\S+)", re.IGNORECASE)
_TRASH_ID = re.compile(rb"\r\nx-trash-id: *(\S+)", re.IGNORECASE)


def read(arena: Arena, portico: Portico) -> Figure:
    (arena.top / "account").mkdir(exist_ok=True)
    picture = io.BytesIO()
    Image.new("RGB", (400, 300), (200, 30, 30)).save(picture, "PNG")
    (arena.top / "account" / "picture.png").write_bytes(picture.getvalue())
    paths = [f"{_API}/{path}" for path in _READ]
    paths += [f"{FILES}/account?action=ACTIVITY", f"{FILES}/account/picture.png?action=THUMBNAIL&size=256"]
    paths += ["/backend/session", "/backend/openapi.json", "/backend/docs", "/healthz", "/readyz"]
    contents = [request("GET", path, portico.bearer("bench")) for path in paths] * 50

    def sample(found: Rates) -> Sample:
        return Sample(found.rate, {"p99 ms": found.p99 * 1000}, found.count)

    contestant = arena.contestant(OURS, hammer, portico.target, contents, 8, sample=sample)
    return arena.plan.run("req/s", {OURS: contestant}, LINES[READS])[OURS]


def change(arena: Arena, portico: Portico) -> Figure:
    (arena.top / "account").mkdir(exist_ok=True)
    contestant = Contestant(partial(_changed, portico), portico)
    return arena.plan.run("ms each", {OURS: contestant}, LINES[CHANGES])[OURS]


def _changed(portico: Portico) -> Sample:
    """Every kind of change a few times, one after the other."""
    user = _User(portico)
    began = time.perf_counter()
    for turn in range(_TURNS):
        user.change(turn)
    return Sample(1000 * (time.perf_counter() - began) / user.requests, requests=user.requests)


class _User:
    def __init__(self, portico: Portico) -> None:
        self._portico = portico
        self._session = portico.bearer("bench")
        self.requests = 0

    def change(self, turn: int) -> None:
        key = self._asked("POST", "account/keys", name=f"key-{turn}")
        self._asked("DELETE", f"account/keys/{key['id']}")
        made = self._asked("POST", "account/links", path="/account", kind="download")
        link = f"account/links/{made['id']}"
        self._asked("POST", "share-sessions", link=made["address"])
        self._asked("GET", link)
        self._asked("PATCH", link, title="Another")
        self._asked("GET", f"{link}/accesses")
        self._asked("POST", f"{link}/address")
        self._asked("DELETE", link)
        self._asked("DELETE", "account/sessions")
        self._upload(turn)
        file = f"filesystem/account/{turn}"
        self._asked("POST", f"{file}?action=TICKET")
        since = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        item = self._deleted(file)
        self._asked("POST", f"trash/{item}?action=RESTORE")
        self._asked("DELETE", f"trash/{self._deleted(file)}")
        self._asked("DELETE", "trash")
        self._asked("POST", "rewinds", since=since, path="/account", dryRun=True)

    def _upload(self, turn: int) -> None:
        """By tus, in as many requests as there are kinds; another one is abandoned."""
        pairs = {"folder": "/account", "filename": str(turn)}
        metadata = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in pairs.items())
        begin = {**_TUS, "Upload-Length": str(len(_CONTENT)), "Upload-Metadata": metadata}
        self._exchanged("OPTIONS", f"{_API}/uploads")
        abandoned, place = (self._location(self._exchanged("POST", f"{_API}/uploads", begin)) for _ in range(2))
        self._exchanged("DELETE", abandoned, _TUS)
        self._exchanged("HEAD", place, _TUS)
        piece = {**_TUS, "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        self._exchanged("PATCH", place, piece, _CONTENT)

    def _location(self, answer: bytes) -> str:
        found = _LOCATION.search(answer)
        assert found
        address = found[1].decode()
        return address[address.index(_API) :]

    def _deleted(self, file: str) -> str:
        found = _TRASH_ID.search(self._exchanged("DELETE", f"{_API}/{file}"))
        assert found
        return found[1].decode()

    def _asked(self, method: str, path: str, /, **values: Any) -> Any:
        body = json.dumps(values).encode() if values else b""
        answer = self._exchanged(method, f"{_API}/{path}", {"Content-Type": "application/json"}, body)
        return json.loads(body_of(answer) or b"null")

    def _exchanged(self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> bytes:
        self.requests += 1
        content = request(method, path, {**self._session, **(headers or {})}, body)
        with self._portico.target.connect() as connection:
            if method == "HEAD":  # its answer has the length of another
                connection.sendall(content)
                return connection.recv(2**16)
            return exchange(connection, content)
