"""What the gateway does not have yet of what is here."""

import os
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass

from portico.cli.remote.locals import Named, content_of
from portico.cli.remote.sameness import Sameness
from portico.cli.remote.tallies import Tally
from portico.cli.remote.transfers import Item
from portico.client.client import Client
from portico.client.comparisons import Candidate
from portico.client.entries import Entry
from portico.client.errors import ClientError, Forbidden, IsAFolder, NotAFolder, NotFound
from portico.client.paths import check_name, clean, join, split

_FEW = 2
"""So many files are looked for one by one; for more, their folder is listed."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a folder at the gateway."""

    entries: dict[str, Entry]
    complete: bool
    """Whether nothing else is in it."""
    exists: bool = False


class UploadPlan:
    """Compares what is here with what is there, folder by folder, and says what is to be sent."""

    def __init__(
        self, client: Client, options: Namespace, tally: Tally, sameness: Sameness, *, whole: bool = False
    ) -> None:
        """If the comparison is to be `whole`, `extra` will hold what is there and not here."""
        self._client = client
        self._options = options
        self._tally = tally
        self._sameness = sameness
        self._doubtful: list[tuple[Candidate, Entry, os.stat_result]] = []
        self._whole = whole
        self.extra: list[Entry] = []

    def of_sources(self, sources: list[Named], target: str, *, into: bool) -> Iterator[Item]:
        """What is to be sent of the files and folders that were named, into the target or, if it is one, as it."""
        folder, alias = (target, "") if into else split(target)
        files = {alias or source.name: source for source in sources if not source.is_folder}
        known = self._known(folder, list(files)) if files else Known({}, complete=False)
        for name, source in files.items():
            yield from self._compared(source.path, source.status, join(folder, name), known.entries.get(name))
        yield from self._resolved()
        for source in sources:
            if source.is_folder:
                try:
                    there = clean(join(target, check_name(source.name)) if source.name else target)
                except ClientError as error:
                    self._tally.fail(source.path, error)
                    continue
                yield from self.of_folder(source.path, there)

    def of_folder(self, local: str, remote: str) -> Iterator[Item]:
        """What is to be sent of the content of a folder."""
        waiting = [(local, remote, True)]
        while waiting:
            here, there, may_exist = waiting.pop()
            try:
                content = content_of(here, self._tally)
                known = self._known(there, [*content.files, *content.folders], may_exist=may_exist)
            except (OSError, NotAFolder) as error:
                self._tally.fail(here, error)
                continue
            if not content.names and not known.exists:
                self._make_folder(there)
            if self._whole:
                self.extra += [known.entries[name] for name in sorted(known.entries.keys() - content.names)]
            for name, status in content.files.items():
                path = join(there, name)
                yield from self._compared(os.path.join(here, name), status, path, known.entries.get(name))
            yield from self._resolved()
            for name in reversed(content.folders):
                may_exist = not known.complete or name in known.entries
                waiting.append((os.path.join(here, name), join(there, name), may_exist))

    def _known(self, folder: str, names: list[str], *, may_exist: bool = True) -> Known:
        if not may_exist:
            return Known({}, complete=True)
        if not self._whole and (self._options.force or len(names) <= _FEW):
            looked_for = [] if self._options.force else names
            entries = {name: entry for name in looked_for if (entry := self._look(folder, name))}
            return Known(entries, complete=False, exists=bool(entries))
        try:
            listed = {entry.name: entry for entry in self._client.list(folder)}
        except NotFound:
            return Known({}, complete=True)
        except Forbidden:
            if self._whole:
                raise
            return Known({}, complete=False)  # some may bring files and not look at those that are there
        return Known(listed, complete=True, exists=True)

    def _look(self, folder: str, name: str) -> Entry | None:
        try:
            return self._client.stat(join(folder, name))
        except ClientError as error:
            if isinstance(error, NotFound | NotAFolder | Forbidden) or error.code == "invalid-path":
                return None  # what stands in the way is told when the file is sent
            raise

    def _compared(
        self, local: str, status: os.stat_result, remote: str, entry: Entry | None
    ) -> Iterator[Item]:
        options, tally = self._options, self._tally
        try:
            clean(remote)
            if entry and not options.no_clobber:
                if entry.is_folder:
                    raise IsAFolder(f"'{remote}' is a folder at the gateway; the file was not sent.")
                if not options.force and self._is_set_aside(local, status, remote, entry):
                    return
            elif entry:
                tally.skip()
                return
            if not os.access(local, os.R_OK):
                raise PermissionError(13, os.strerror(13), local)
        except (ClientError, OSError) as error:
            tally.fail(remote, error)
            return
        yield Item(local, remote, status.st_size)

    def _is_set_aside(self, local: str, status: os.stat_result, remote: str, entry: Entry) -> bool:
        """Whether the file need not be sent, or is among those that are to be compared."""
        verdict = self._sameness.judge(remote, entry, local, status, down=False)
        if isinstance(verdict, Candidate):
            self._doubtful.append((verdict, entry, status))
        elif verdict:
            self._tally.skip()
        return verdict is not False

    def _resolved(self) -> Iterator[Item]:
        """Compare what can be told in no other way."""
        doubtful, self._doubtful = self._doubtful, []
        equal = self._sameness.equal(doubtful)
        for candidate, _, status in doubtful:
            if candidate.path in equal:
                self._tally.skip()
            else:
                yield from self._compared(candidate.local, status, candidate.path, None)

    def _make_folder(self, path: str) -> None:
        if self._options.dry_run:
            print(f"make the folder {path}")
        else:
            self._client.make_folder(path)
