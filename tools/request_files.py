"""Counts the files of `portico` that one warm request runs through: a listing, an upload, a download, a sign-in.

python tools/request_files.py            # the counts
python tools/request_files.py --names    # and the files
"""

import asyncio
import json
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = str(Path(__file__).resolve().parent.parent / "src" / "portico")
ADDRESS = "/backend/1.0.0/filesystem"
CLIENT = "cG9ydGljby13ZWI6c2VjcmV0"  # portico-web:secret, as HTTP Basic credentials

seen: set[str] = set()


def note(frame: FrameType, event: str, _: Any) -> None:
    if event == "call":
        seen.add(frame.f_code.co_filename)


# From the start and in every thread: a profiler does not reach threads that run already.
threading.setprofile(note)
sys.setprofile(note)

from portico import bootstrap, settings  # noqa: E402
from portico.accounts.connections import Connections  # noqa: E402
from portico.accounts.passwords import Passwords  # noqa: E402
from portico.accounts.users import Users  # noqa: E402
from portico.accounts.vault import SecretKey, Vault  # noqa: E402
from portico.app import create_app  # noqa: E402
from portico.store.database import Database  # noqa: E402
from portico.store.schema import migrate  # noqa: E402


async def never(*_: object) -> None:
    await asyncio.Event().wait()


async def counted(home: Path) -> dict[str, list[str]]:
    keys = {"security.client-id": "portico-web", "security.client-secret": "secret"}
    chosen = settings.load(home, {}, keys)
    migrate(chosen.database_url)
    database, passwords = Database(chosen.database_url), Passwords()
    vault = Vault(SecretKey.load(chosen.secret_key_file, {}))
    await Connections(database, vault).add("local", "local", {"folder": str(chosen.files_folder)}, {})
    await Users(database, passwords).add("web", "correct horse", root="/web")
    (chosen.files_folder / "web").mkdir(parents=True)
    (chosen.files_folder / "web" / "file.txt").write_bytes(b"content")
    bootstrap._repeat = never  # type: ignore[assignment]  # sweeps are no part of a request
    app = create_app(chosen)
    inbox: asyncio.Queue[Any] = asyncio.Queue()
    outbox: asyncio.Queue[Any] = asyncio.Queue()
    state: dict[str, Any] = {}
    running = asyncio.create_task(app({"type": "lifespan", "state": state}, inbox.get, outbox.put))
    await inbox.put({"type": "lifespan.startup"})
    await outbox.get()

    async def ask(
        method: str, path: str, headers: dict[str, str], body: bytes = b""
    ) -> tuple[int, bytes, set[str]]:
        raw = [(b"host", b"gateway.test"), *((k.encode(), v.encode()) for k, v in headers.items())]
        if body:
            raw.append((b"content-length", b"%d" % len(body)))
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": raw,
            "client": ("127.0.0.1", 50000),
            "state": dict(state),
            "root_path": "",
            "scheme": "http",
        }
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])
        answered = asyncio.Event()
        status, content = 0, b""

        async def receive() -> Any:
            for message in messages:
                return message
            await answered.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal status, content
            status = message.get("status", status)
            content += message.get("body", b"")
            if message["type"] == "http.response.body" and not message.get("more_body"):
                answered.set()

        seen.clear()
        await app(scope, receive, send)
        return status, content, {name for name in seen if name.startswith(SOURCE)}

    form_type = {"content-type": "application/x-www-form-urlencoded", "authorization": f"Basic {CLIENT}"}
    form = b"grant_type=password&username=web&password=correct+horse"
    sign_in = ("POST", "/backend/login", form_type, form)
    token = json.loads((await ask(*sign_in))[1])["access_token"]
    bearer = {"authorization": f"Bearer {token}"}
    part = b'--b\r\nContent-Disposition: form-data; name="data"; filename="a.txt"\r\n\r\nx\r\n--b--\r\n'
    upload = {**bearer, "content-type": "multipart/form-data; boundary=b"}
    found: dict[str, list[str]] = {}
    requests: dict[str, tuple[Any, ...]] = {
        "listing": ("GET", ADDRESS, bearer),
        "upload": ("POST", ADDRESS, upload, part),
        "download": ("GET", f"{ADDRESS}/file.txt", bearer),
        "sign-in": sign_in,
    }
    for name, request in requests.items():
        attempts = []
        for _ in range(5):
            status, content, files = await ask(*request)
            assert status in (200, 204), content
            attempts.append(files)
        warm = min(attempts, key=len)  # on a busy machine, any of them may be too late for a cache
        found[name] = sorted(file.removeprefix(SOURCE + "/") for file in warm)
    await inbox.put({"type": "lifespan.shutdown"})
    await outbox.get()
    await running
    passwords.close()
    await database.close()
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        found = asyncio.run(counted(Path(home)))
    if "--json" in sys.argv:
        print(json.dumps(found))
        return
    for name, files in found.items():
        print(f"{name:10}{len(files):3}")
        if "--names" in sys.argv:
            print(*(f"    {file}" for file in files), sep="\n")


if __name__ == "__main__":
    main()
