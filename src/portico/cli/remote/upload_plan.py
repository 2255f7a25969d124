"""Plans uploads: which local files differ from those on the gateway."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from portico.cli.console.output import tell
from portico.cli.remote.comparison import Plan
from portico.cli.remote.local_sources import LocalSource, list_folder
from portico.cli.remote.remote_tree import RemoteTree
from portico.cli.remote.transfers import Item
from portico.client.entries import Entry
from portico.client.errors import ClientError, Forbidden, IsAFolder, NotAFolder, NotFound
from portico.client.paths import check_name, clean, join, split
from portico.client.transfers.content_comparer import Candidate

_FEW = 2
"""Up to this many files are looked up one by one; for more, their folder is listed."""
_ONE_BY_ONE = 8
"""How many folders are looked at one by one before everything below the target is listed."""


@dataclass(frozen=True, slots=True)
class Known:
    entries: dict[str, Entry]
    complete: bool
    """Whether these are all its entries."""
    exists: bool = False


class UploadPlan(Plan[Entry]):
    def of_sources(self, sources: list[LocalSource], target: str, *, into: bool) -> Iterator[Item]:
        """The files of the sources to upload, into the target or, unless `into`, as the target."""
        folder, alias = (target, "") if into else split(target)
        files = {alias or source.name: source for source in sources if not source.is_folder}
        tree = RemoteTree(self._client, folder, one_by_one=1)
        known = self._known(tree, folder, list(files)) if files else Known({}, complete=False)
        for name, source in files.items():
            path, entry = join(folder, name), known.entries.get(name)
            yield from self._compared(source.path, source.status, path, entry, listed=known.complete)
        yield from self._resolved()
        for source in sources:
            if source.is_folder:
                try:
                    there = clean(join(target, check_name(source.name)) if source.name else target)
                except ClientError as error:
                    self._report.fail(source.path, error)
                    continue
                yield from self.of_folder(source.path, there)

    def of_folder(self, local: str, remote: str) -> Iterator[Item]:
        waiting = [(local, remote, True)]
        tree = RemoteTree(self._client, remote, one_by_one=_ONE_BY_ONE)
        while waiting:
            here, there, may_exist = waiting.pop()
            try:
                content = list_folder(here, self._report)
                known = self._known(tree, there, [*content.files, *content.folders], may_exist=may_exist)
            except (OSError, NotAFolder) as error:
                self._report.fail(here, error)
                continue
            if not content.names and not known.exists:
                if self._options.dry_run:
                    facts = {"path": there, "type": "DIRECTORY", "dryRun": True}
                    tell(f"create folder {there}", facts, as_json=self._options.as_json)
                else:
                    self._client.make_folder(there)
            if self._whole:
                self.extra += [known.entries[name] for name in sorted(known.entries.keys() - content.names)]
            for name, status in content.files.items():
                source, path, entry = os.path.join(here, name), join(there, name), known.entries.get(name)
                yield from self._compared(source, status, path, entry, listed=known.complete)
            yield from self._resolved()
            for name in reversed(content.folders):
                may_exist = not known.complete or name in known.entries
                waiting.append((os.path.join(here, name), join(there, name), may_exist))

    def _known(self, tree: RemoteTree, folder: str, names: list[str], *, may_exist: bool = True) -> Known:
        if not may_exist:
            return Known({}, complete=True)
        if self._options.force and not self._whole:
            return Known({}, complete=False)
        if not self._whole and tree.one_by_one and len(names) <= _FEW:
            tree.one_by_one -= 1
            entries = {name: entry for name in names if (entry := self._look(folder, name))}
            return Known(entries, complete=False, exists=bool(entries))
        try:
            listed = {entry.name: entry for entry in tree.content(folder)}
        except NotFound:
            return Known({}, complete=True)
        except Forbidden:
            if self._whole:
                raise
            return Known({}, complete=False)  # some users may upload but not list
        return Known(listed, complete=True, exists=True)

    def _look(self, folder: str, name: str) -> Entry | None:
        try:
            return self._client.stat(join(folder, name))
        except ClientError as error:
            if isinstance(error, NotFound | NotAFolder | Forbidden) or error.code == "invalid-path":
                return None  # the upload reports the conflict, if there is one
            raise

    def _compared(
        self, local: str, status: os.stat_result, remote: str, entry: Entry | None, *, listed: bool = False
    ) -> Iterator[Item]:
        options, report = self._options, self._report
        try:
            clean(remote)
            if entry and not options.no_clobber:
                if entry.is_folder:
                    raise IsAFolder(f"'{remote}' is a folder on the gateway; the file was not uploaded.")
                if self._is_set_aside(remote, entry, local, status, down=False, listed=listed):
                    return
            elif entry:
                report.skipped += 1
                return
            if not os.access(local, os.R_OK):
                raise PermissionError(13, os.strerror(13), local)
        except (ClientError, OSError) as error:
            report.fail(remote, error)
            return
        yield Item(local, remote, status.st_size)

    def _different(self, candidate: Candidate, entry: Entry, status: os.stat_result) -> Iterator[Item]:
        yield from self._compared(candidate.local, status, candidate.path, None)
