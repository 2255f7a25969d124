"""The content of a backup: lines of JSON.

The first line has the facts, then each batch of rows is a line, and the last one has the number of rows of each table
and the SHA-256 of all lines before it.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from gzip import GzipFile
from pathlib import Path
from typing import Any, Final

from portico.store import archive
from portico.store.content import Batch, Content, Counts

_LONGEST_LINE: Final = 256 * 1024 * 1024
_BYTES: Final = "base64"
_NOT_A_BACKUP: Final = "is damaged: it has content that is not a backup's"


@dataclass(frozen=True, slots=True)
class Facts:
    portico: str
    """The version that wrote it."""
    revision: str
    """Of the schema."""
    created: str
    key: str | None
    """The fingerprint of the secret key."""
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Files of the home, by name; one of them may be the secret key."""


@dataclass(frozen=True, slots=True)
class Backup:
    file: Path
    facts: Facts
    counts: Counts
    passphrase: str | None = field(repr=False)

    def content(self) -> Content:
        async def batches() -> AsyncIterator[Batch]:
            with archive.opened(self.file, self.passphrase) as stream:
                for line in _verified_lines(stream, self.file):
                    if "table" in line:
                        try:
                            rows = [_decoded(row) for row in line["rows"]]
                            batch = Batch(line["table"], tuple(map(_name, line["columns"])), rows)
                        except (TypeError, KeyError, ValueError) as error:
                            raise archive.Damaged(self.file, _NOT_A_BACKUP) from error
                        yield batch

        return Content(self.facts.revision, batches)


async def write(file: Path, facts: Facts, content: Content, passphrase: str | None) -> Counts:
    """Write a backup, and count the rows of each table."""
    counts: Counts = {}
    with archive.written(file, passphrase) as stream:
        digest = hashlib.sha256()

        def add(line: Mapping[str, Any]) -> None:
            data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
            digest.update(data)
            stream.write(data)

        add(asdict(facts))
        async for batch in content.batches():
            counts[batch.table] = counts.get(batch.table, 0) + len(batch.rows)
            rows = [[_encoded(value) for value in row] for row in batch.rows]
            add({"table": batch.table, "columns": batch.columns, "rows": rows})
        add({"counts": counts, "sha256": digest.hexdigest()})
    return counts


def read(file: Path, passphrase: str | None) -> Backup:
    """The backup, after all of it was read and verified."""
    with archive.opened(file, passphrase) as stream:
        lines = _verified_lines(stream, file)
        try:
            facts = _facts(next(lines))
            counts: Counts = {}
            for line in lines:
                if "table" in line:
                    counts[line["table"]] = counts.get(line["table"], 0) + len(line["rows"])
                elif line["counts"] != counts:
                    raise archive.Damaged(
                        file, "is damaged: it does not have the number of rows that it states"
                    )
        except (TypeError, KeyError, StopIteration) as error:
            raise archive.Damaged(file, _NOT_A_BACKUP) from error
    return Backup(file, facts, counts, passphrase)


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a name")
    return value


def _facts(line: dict[str, Any]) -> Facts:
    facts = Facts(**line)
    texts = (facts.portico, facts.revision, facts.created, facts.key or "")
    if not isinstance(facts.files, dict) or not all(
        isinstance(value, str) for value in (*texts, *facts.files.values())
    ):
        raise TypeError("not a text")
    return facts


def _verified_lines(stream: GzipFile, file: Path) -> Iterator[Any]:
    """Each line; `Damaged` unless the last one has the digest of those before it."""
    digest = hashlib.sha256()
    ended = False
    while data := stream.readline(_LONGEST_LINE):
        if ended:
            raise archive.Damaged(file, "is damaged: it goes on after its end")
        try:
            line = json.loads(data)
            if not isinstance(line, dict):
                raise TypeError("not an object")
            ended = "sha256" in line
        except (ValueError, TypeError, RecursionError) as error:
            raise archive.Damaged(file, _NOT_A_BACKUP) from error
        if ended and line["sha256"] != digest.hexdigest():
            raise archive.Damaged(file, "is damaged: its checksum does not match")
        digest.update(data)
        yield line
    if not ended:
        raise archive.Damaged(file, "is damaged or incomplete")


def _encoded(value: Any) -> Any:
    return {_BYTES: b64encode(value).decode()} if isinstance(value, bytes | memoryview) else value


def _decoded(row: list[Any]) -> tuple[Any, ...]:
    return tuple(_value(value) for value in row)


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return b64decode(value[_BYTES], validate=True)
    if isinstance(value, list):
        raise TypeError("not a value")
    return value
