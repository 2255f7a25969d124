"""Decides which files need no transfer because the local and the remote file are equal.

Files of different sizes differ. Files of the same size are equal if the transfer record knows the pair and neither has
changed since. Without a record, a local file with exactly the remote file's time is taken for what `get` has downloaded.
All others are equal only if their content is.
"""

import os
import time
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Generic, TypeVar

from portico.cli.remote.connect import Gateway
from portico.cli.remote.report import Report
from portico.cli.remote.transfer_record import Pair, TransferRecord, fingerprint
from portico.cli.remote.transfers import Item
from portico.client.entries import Entry
from portico.client.transfers.batches import SMALL
from portico.client.transfers.content_comparer import Candidate, ContentComparer
from portico.client.transfers.progress import Receipt
from portico.client.transfers.sources import stable_status

E = TypeVar("E")

_SETTLES = 3600_000
"""How old a file must be, in milliseconds, before its time alone identifies its version, given clock skew."""
_SLACK = 2000
"""How far a file's time may be from the time its storage reported, in milliseconds."""


class Comparison:
    def __init__(self, gateway: Gateway, options: SimpleNamespace, record: TransferRecord) -> None:
        self._gateway = gateway
        self._checksum: bool = options.checksum
        self._dry: bool = options.dry_run
        self._record = record
        self._comparer = ContentComparer(gateway.session, getattr(options, "jobs", 8), read=self._checksum)

    def judge(
        self, path: str, entry: Entry, local: str, status: os.stat_result, *, down: bool, listed: bool = False
    ) -> bool | Candidate:
        """Whether the two are equal; a candidate if only their content can tell. `listed`: the entry is one of a listing."""
        if entry.size != status.st_size:
            return False
        if not entry.size:
            return True
        pair = None if self._checksum else self._record.find(path, local)
        kept = pair and _keeps_time(pair, entry, status)
        if pair and (kept or (_matches(pair, entry, status) and (pair.since == pair.until or not down))):
            if pair.etag:
                return Candidate(path, local, pair.etag)
            if kept and not listed:  # a listing may have another time, that of the upload
                return True
            self._note(path, local, pair._replace(since=milliseconds(entry), until=milliseconds(entry)), pair)
            return True
        if self._checksum:
            return Candidate(path, local)
        if down and not pair and entry.last_modified and status.st_mtime_ns == milliseconds(entry) * 1_000_000:
            return True
        worthwhile = entry.size > SMALL and self._comparer.digests is not False
        return Candidate(path, local) if worthwhile else False

    def equal(self, candidates: Iterable[tuple[Candidate, Entry, os.stat_result]]) -> set[str]:
        """The remote paths of the candidates that are equal."""
        known = {candidate.path: (candidate, entry, status) for candidate, entry, status in candidates}
        found = self._gateway.run(self._comparer.equal(one[0] for one in known.values())) if known else {}
        for path, etag in found.items():
            candidate, entry, status = known[path]
            self._note(path, candidate.local, _seen(entry, status, etag))
        return set(found)

    def sent(self, receipt: Receipt) -> None:
        entry, local, status = receipt.entry, receipt.local, receipt.status
        if entry is None or local is None or status is None or entry.last_modified is None:
            return
        if entry.size != status.st_size:
            return
        since = until = milliseconds(entry)
        if since == status.st_mtime_ns // 1_000_000 and receipt.stored_at is not None:
            # The file keeps the time of the local one, but listings of some services have the time of the upload.
            since = until = round(receipt.stored_at) * 1000
        if since % 1000 == 0:
            # A service that tells whole seconds may tell those of its answer. It may also date a file from when the
            # upload began.
            since, until = since - round(receipt.seconds * 1000) - _SLACK, until + _SLACK
        self._note(entry.path, local, Pair(fingerprint(status), since, until))

    def fetched(self, receipt: Receipt) -> None:
        entry, local, status = receipt.entry, receipt.local, receipt.status
        if entry is not None and local is not None and status is not None:
            # With the time of the listing, which the next comparison sees. If the file was replaced since, that is another.
            self._note(receipt.path, local, _seen(receipt.listed or entry, status, entry.etag))

    def _note(self, path: str, local: str, pair: Pair | None, known: Pair | None = None) -> None:
        if pair and pair != known and not self._dry:
            self._record.add(path, local, pair)


class Plan(Generic[E]):
    """Compares the files of both sides, folder by folder, and yields what to transfer."""

    def __init__(
        self, client: Gateway, options: SimpleNamespace, report: Report, record: TransferRecord, *, whole: bool = False
    ) -> None:
        """If `whole`, `extra` collects what exists only at the target."""
        self._client = client
        self._options = options
        self._report = report
        self.comparison = Comparison(client, options, record)
        self._candidates: list[tuple[Candidate, Entry, os.stat_result]] = []
        self._whole = whole
        self.extra: list[E] = []

    def _is_set_aside(
        self, remote: str, entry: Entry, local: str, status: os.stat_result, *, down: bool, listed: bool = False
    ) -> bool:
        """Whether the file needs no transfer, or is now a candidate for comparison."""
        if self._options.force:
            return False
        verdict = self.comparison.judge(remote, entry, local, status, down=down, listed=listed)
        if isinstance(verdict, Candidate):
            self._candidates.append((verdict, entry, status))
        elif verdict:
            self._report.skipped += 1
        return verdict is not False

    def _resolved(self) -> Iterator[Item]:
        candidates, self._candidates = self._candidates, []
        equal = self.comparison.equal(candidates)
        for candidate, entry, status in candidates:
            if candidate.path in equal:
                self._report.skipped += 1
            else:
                yield from self._different(candidate, entry, status)

    def _different(self, candidate: Candidate, entry: Entry, status: os.stat_result) -> Iterator[Item]:
        raise NotImplementedError


def _seen(entry: Entry, status: os.stat_result, etag: str | None) -> Pair | None:
    """The pair as just seen; None if a change right after might not be detectable."""
    moment = milliseconds(entry)
    young = moment % 1000 == 0 and moment > time.time() * 1000 - _SETTLES
    if stable_status(status) is None or entry.last_modified is None or (young and not etag):
        return None
    return Pair(fingerprint(status), moment, moment, etag if young else None)


def _matches(pair: Pair, entry: Entry, status: os.stat_result) -> bool:
    moment = milliseconds(entry)
    # Some services report milliseconds in listings only.
    rounded = pair.since // 1000 == moment // 1000 and (moment % 1000 == 0 or pair.since % 1000 == 0)
    within = pair.since <= moment <= pair.until or (pair.since == pair.until and rounded)
    return entry.last_modified is not None and within and pair.local == fingerprint(status)


def _keeps_time(pair: Pair, entry: Entry, status: os.stat_result) -> bool:
    """Whether the local file is unchanged, and the remote one has its time, as uploads set it."""
    same = entry.last_modified is not None and milliseconds(entry) == status.st_mtime_ns // 1_000_000
    return same and pair.local == fingerprint(status)


def milliseconds(entry: Entry) -> int:
    """The modification time; 0 if unknown."""
    return round(entry.modified.timestamp() * 1000) if entry.modified else 0
