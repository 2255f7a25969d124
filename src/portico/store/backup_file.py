"""The content of a backup: lines of JSON.

The first line has the facts, then each batch of rows is a line, and the last one has the number of rows of each table
and the SHA-256 of all lines before it.
"""

import gzip
import hashlib
import io
import json
import os
import secrets
import zlib
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from gzip import GzipFile
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from argon2.low_level import Type, hash_secret_raw
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from portico.model.errors import PorticoError
from portico.runtime.private_files import sync_folder
from portico.store.dump import Batch, Content, Counts
from portico.store.encrypted_columns import Confidential

_PLAIN: Final = b"PORTICO-BACKUP 1 plain\n"
_ENCRYPTED: Final = b"PORTICO-BACKUP 1 argon2id-aes256gcm "
_LONGEST_FIRST_LINE: Final = 200
_SALT: Final = 16
_CHUNK: Final = 64 * 1024
_TAG: Final = 16
_NUMBER: Final = 11


class Damaged(PorticoError, code="damaged-backup"):
    """The file is not a backup, or not a whole one."""

    def __init__(self, file: Path, why: str) -> None:
        super().__init__(f"The file {file} {why}; nothing was changed.")


class Unwritable(PorticoError, code="backup-not-written"):
    """The file cannot be written: no permission, a full disk."""


class WrongPassphrase(PorticoError, code="wrong-passphrase"): ...


@contextmanager
def written(file: Path, passphrase: str | None) -> Iterator[gzip.GzipFile]:
    """A stream for the content of a new backup. The file gets its name, and replaces an older one, when it is whole."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            with _sealed(stream, passphrase) as target, gzip.GzipFile("", "wb", fileobj=target, mtime=0) as content:
                yield content
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, file)
        sync_folder(file.parent)
    except OSError as error:
        raise Unwritable(f"The backup {file} can't be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            draft.unlink()


def is_encrypted(file: Path) -> bool:
    with file.open("rb") as stream:
        return _first_line(stream, file) != _PLAIN


@contextmanager
def opened(file: Path, passphrase: str | None) -> Iterator[gzip.GzipFile]:
    """The content of a backup. `Damaged` or `WrongPassphrase` while it is read, if it cannot be."""
    with file.open("rb") as stream:
        first = _first_line(stream, file)
        source: BinaryIO = stream
        if first != _PLAIN:
            if passphrase is None:
                raise WrongPassphrase(f"The backup {file} is encrypted; give its passphrase.")
            salt = bytes.fromhex(first.removeprefix(_ENCRYPTED).decode())
            source = io.BufferedReader(_Opening(stream, file, _cipher(passphrase, salt), first), _CHUNK)
        try:
            with gzip.GzipFile(fileobj=source, mode="rb") as content:
                yield content
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise Damaged(file, "is damaged or incomplete") from error
        except OSError as error:
            raise Damaged(file, f"can't be read ({error.strerror or error})") from error


@contextmanager
def _sealed(stream: BinaryIO, passphrase: str | None) -> "Iterator[BinaryIO | _Sealing]":
    if passphrase is None:
        stream.write(_PLAIN)
        yield stream
        return
    salt = secrets.token_bytes(_SALT)
    first = _ENCRYPTED + salt.hex().encode() + b"\n"
    stream.write(first)
    sealing = _Sealing(stream, _cipher(passphrase, salt), first)
    yield sealing
    sealing.finish()


class _Sealing:
    """Encrypts what is written to it in chunks."""

    def __init__(self, stream: BinaryIO, cipher: AESGCM, label: bytes) -> None:
        self._stream, self._cipher, self._label = stream, cipher, label
        self._waiting = bytearray()
        self._number = 0

    def write(self, data: bytes) -> int:
        self._waiting += data
        while len(self._waiting) > _CHUNK:  # the last chunk is not known before the end
            self._write_chunk(bytes(self._waiting[:_CHUNK]), last=False)
            del self._waiting[:_CHUNK]
        return len(data)

    def flush(self) -> None:
        """Chunks are written when they are full."""

    def finish(self) -> None:
        self._write_chunk(bytes(self._waiting), last=True)

    def _write_chunk(self, data: bytes, *, last: bool) -> None:
        self._stream.write(self._cipher.encrypt(_nonce(self._number, last), data, self._label))
        self._number += 1


class _Opening(io.RawIOBase):
    def __init__(self, stream: BinaryIO, file: Path, cipher: AESGCM, label: bytes) -> None:
        self._stream, self._file, self._cipher, self._label = stream, file, cipher, label
        self._next = stream.read(_CHUNK + _TAG)
        self._number = 0
        self._rest = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, target: "memoryview") -> int:  # type: ignore[override]
        while not self._rest and not self._ended:
            self._read_chunk()
        size = min(len(target), len(self._rest))
        target[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def _read_chunk(self) -> None:
        chunk, self._next = self._next, self._stream.read(_CHUNK + _TAG)
        self._ended = not self._next
        try:
            self._rest = self._cipher.decrypt(_nonce(self._number, self._ended), chunk, self._label)
        except (InvalidTag, ValueError):
            if self._number:
                raise Damaged(self._file, "is damaged or incomplete") from None
            raise WrongPassphrase(
                f"The passphrase is wrong, or the file {self._file} is damaged; nothing was changed."
            ) from None
        self._number += 1


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(_NUMBER, "big") + bytes([last])


def _cipher(passphrase: str, salt: bytes) -> AESGCM:
    """With the parameters that RFC 9106 recommends where 2 GiB of memory are too much."""
    key = hash_secret_raw(
        passphrase.encode(), salt, time_cost=3, memory_cost=64 * 1024, parallelism=4, hash_len=32, type=Type.ID
    )
    return AESGCM(key)


def _first_line(stream: BinaryIO, file: Path) -> bytes:
    first = stream.readline(_LONGEST_FIRST_LINE)
    if first == _PLAIN:
        return first
    with suppress(ValueError):
        if first.startswith(_ENCRYPTED) and len(bytes.fromhex(first[len(_ENCRYPTED) :].decode())) == _SALT:
            return first
    if first.startswith(b"PORTICO-BACKUP ") and not first.startswith(b"PORTICO-BACKUP 1 "):
        raise Damaged(file, "was made by a newer version of Portico, and this version can't read it")
    raise Damaged(file, "is not a Portico backup")


_LONGEST_LINE: Final = 256 * 1024 * 1024
_BYTES: Final = "base64"
_NOT_A_BACKUP: Final = "is damaged: it contains data that doesn't belong in a backup"


class Facts(Confidential, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    portico: str
    """The version that wrote it."""
    revision: str
    """Of the schema."""
    created: str
    key: str | None
    """The fingerprint of the secret key."""
    files: Mapping[str, str] = {}
    """Files of the home, by name; one of them may be the secret key."""


class _BatchLine(msgspec.Struct):
    table: str
    columns: tuple[str, ...]
    rows: list[list[Any]]


@dataclass(frozen=True, slots=True)
class Backup:
    file: Path
    facts: Facts
    counts: Counts
    passphrase: str | None = field(repr=False)

    def content(self) -> Content:
        async def batches() -> AsyncIterator[Batch]:
            with opened(self.file, self.passphrase) as stream:
                for line in _verified_lines(stream, self.file):
                    if "table" in line:
                        try:
                            found = msgspec.convert(line, _BatchLine)
                            batch = Batch(found.table, found.columns, [tuple(map(_value, row)) for row in found.rows])
                        except (TypeError, KeyError, ValueError) as error:
                            raise Damaged(self.file, _NOT_A_BACKUP) from error
                        yield batch

        return Content(self.facts.revision, batches)


async def write(file: Path, facts: Facts, content: Content, passphrase: str | None) -> Counts:
    counts: Counts = {}
    with written(file, passphrase) as stream:
        digest = hashlib.sha256()

        def add(line: Mapping[str, Any]) -> None:
            data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
            digest.update(data)
            stream.write(data)

        add(msgspec.structs.asdict(facts))
        async for batch in content.batches():
            counts[batch.table] = counts.get(batch.table, 0) + len(batch.rows)
            rows = [[_encoded(value) for value in row] for row in batch.rows]
            add({"table": batch.table, "columns": batch.columns, "rows": rows})
        add({"counts": counts, "sha256": digest.hexdigest()})
    return counts


def read(file: Path, passphrase: str | None) -> Backup:
    """The backup, after all of it was read and verified."""
    with opened(file, passphrase) as stream:
        lines = _verified_lines(stream, file)
        try:
            facts = msgspec.convert(next(lines), Facts)
            counts: Counts = {}
            for line in lines:
                if "table" in line:
                    counts[line["table"]] = counts.get(line["table"], 0) + len(line["rows"])
                elif line["counts"] != counts:
                    raise Damaged(file, "is damaged: its number of rows differs from the number it states")
        except (TypeError, KeyError, StopIteration, msgspec.ValidationError) as error:
            raise Damaged(file, _NOT_A_BACKUP) from error
    return Backup(file, facts, counts, passphrase)


def _verified_lines(stream: GzipFile, file: Path) -> Iterator[Any]:
    """Each line; `Damaged` unless the last one has the digest of those before it."""
    digest = hashlib.sha256()
    ended = False
    while data := stream.readline(_LONGEST_LINE):
        if ended:
            raise Damaged(file, "is damaged: it continues after its end")
        try:
            line = json.loads(data)
            if not isinstance(line, dict):
                raise TypeError("not an object")
            ended = "sha256" in line
        except (ValueError, TypeError, RecursionError) as error:
            raise Damaged(file, _NOT_A_BACKUP) from error
        if ended and line["sha256"] != digest.hexdigest():
            raise Damaged(file, "is damaged: its checksum doesn't match")
        digest.update(data)
        yield line
    if not ended:
        raise Damaged(file, "is damaged or incomplete")


def _encoded(value: Any) -> Any:
    return {_BYTES: b64encode(value).decode()} if isinstance(value, bytes | memoryview) else value


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return b64decode(value[_BYTES], validate=True)
    if isinstance(value, list):
        raise TypeError("not a value")
    return value
