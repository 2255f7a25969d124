"""The same operations as each server wants to be asked for them. Paths start with `/`."""

import json
from collections.abc import Iterable
from typing import Protocol

from bench.load import request
from bench.servers import FILES, form_of
from bench.sftpgo.peer import ACTIONS, DIRS, UPLOAD, ZIP
from bench.sftpgo.peer import FILES as THEIR_FILES

Headers = dict[str, str]


class Dialect(Protocol):
    """Each method returns a whole request."""

    def list_folder(self, folder: str) -> bytes: ...
    def upload(self, path: str, content: bytes) -> bytes: ...
    def form(self, folder: str, files: Iterable[tuple[str, bytes]]) -> bytes: ...
    def download(self, path: str, span: str = "") -> bytes: ...
    def move(self, path: str, target: str) -> bytes: ...
    def copy(self, path: str, target: str) -> bytes: ...
    def delete(self, path: str) -> bytes: ...
    def make_folder(self, path: str) -> bytes: ...


class PorticoDialect:
    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    def list_folder(self, folder: str) -> bytes:
        return self._asked("GET", f"{folder}?size=1000")

    def upload(self, path: str, content: bytes) -> bytes:
        return self._asked("PUT", path, body=content)

    def form(self, folder: str, files: Iterable[tuple[str, bytes]]) -> bytes:
        more, body = form_of(files)
        return self._asked("POST", folder, more, body)

    def download(self, path: str, span: str = "") -> bytes:
        return self._asked("GET", path, _range(span))

    def move(self, path: str, target: str) -> bytes:
        return self._asked("POST", f"{path}?action=MOVE&target={target}")

    def copy(self, path: str, target: str) -> bytes:
        return self._asked("POST", f"{path}?action=COPY&target={target}")

    def delete(self, path: str) -> bytes:
        return self._asked("DELETE", path)

    def make_folder(self, path: str) -> bytes:
        return self._asked("POST", f"{path}?action=MKDIR")

    def stat(self, path: str) -> bytes:
        return self._asked("GET", f"{path}?action=STAT")

    def zip(self, folder: str) -> bytes:
        return self._asked("GET", f"{folder}?action=ZIP")

    def _asked(self, method: str, path: str, more: Headers | None = None, body: bytes = b"") -> bytes:
        return request(method, FILES + path, {**self._headers, **(more or {})}, body)


class SftpgoDialect:
    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    def list_folder(self, folder: str) -> bytes:
        return self._asked("GET", f"{DIRS}?path={folder}")

    def upload(self, path: str, content: bytes) -> bytes:
        return self._asked("POST", f"{UPLOAD}?path={path}", body=content)

    def form(self, folder: str, files: Iterable[tuple[str, bytes]]) -> bytes:
        more, body = form_of(files, "filenames")
        return self._asked("POST", f"{THEIR_FILES}?path={folder}", more, body)

    def download(self, path: str, span: str = "") -> bytes:
        return self._asked("GET", f"{THEIR_FILES}?path={path}", _range(span))

    def move(self, path: str, target: str) -> bytes:
        return self._asked("POST", f"{ACTIONS}/move?path={path}&target={target}")

    def copy(self, path: str, target: str) -> bytes:
        return self._asked("POST", f"{ACTIONS}/copy?path={path}&target={target}")

    def delete(self, path: str) -> bytes:
        return self._asked("DELETE", f"{THEIR_FILES}?path={path}")

    def make_folder(self, path: str) -> bytes:
        return self._asked("POST", f"{DIRS}?path={path}")

    def zip(self, folder: str) -> bytes:
        return self._asked("POST", ZIP, {"Content-Type": "application/json"}, json.dumps([folder]).encode())

    def _asked(self, method: str, path: str, more: Headers | None = None, body: bytes = b"") -> bytes:
        return request(method, path, {**self._headers, **(more or {})}, body)


class RcloneDialect:
    """`rclone rcd --rc-serve` with a remote."""

    def __init__(self, remote: str) -> None:
        self._remote = remote

    def list_folder(self, folder: str) -> bytes:
        # Without times: for those, it would ask for each file.
        return self._asked("list", fs=self._remote, remote=folder[1:], opt={"noModTime": True, "noMimeType": True})

    def upload(self, path: str, content: bytes) -> bytes:
        folder, _, name = path.rpartition("/")
        return self.form(folder, [(name, content)])

    def form(self, folder: str, files: Iterable[tuple[str, bytes]]) -> bytes:
        more, body = form_of(files)
        return request("POST", f"/operations/uploadfile?fs={self._remote}&remote={folder[1:]}", more, body)

    def download(self, path: str, span: str = "") -> bytes:
        return request("GET", f"/[{self._remote}]{path}", _range(span))

    def move(self, path: str, target: str) -> bytes:
        return self._two("movefile", path, target)

    def copy(self, path: str, target: str) -> bytes:
        return self._two("copyfile", path, target)

    def delete(self, path: str) -> bytes:
        return self._asked("deletefile", fs=self._remote, remote=path[1:])

    def make_folder(self, path: str) -> bytes:
        return self._asked("mkdir", fs=self._remote, remote=path[1:])

    def _two(self, verb: str, path: str, target: str) -> bytes:
        places = {"srcRemote": path[1:], "dstRemote": target[1:]}
        return self._asked(verb, srcFs=self._remote, dstFs=self._remote, **places)

    def _asked(self, verb: str, **values: object) -> bytes:
        body = json.dumps(values).encode()
        return request("POST", f"/operations/{verb}", {"Content-Type": "application/json"}, body)


def _range(span: str) -> Headers:
    return {"Range": f"bytes={span}"} if span else {}
