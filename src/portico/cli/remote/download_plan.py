"""Plans downloads: which files on the gateway differ from the local ones."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from portico.cli.remote.comparison import Plan
from portico.cli.remote.local_sources import is_partial_file
from portico.cli.remote.remote_tree import RemoteTree
from portico.cli.remote.transfers import Item
from portico.cli.remote.values import report_missing
from portico.client.entries import Entry
from portico.client.errors import ClientError, Forbidden, InvalidPath, NotAFolder, NotFound, NotPossible
from portico.client.paths import check_name, join
from portico.client.transfers.content_comparer import Candidate


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """A file or folder on the gateway given on the command line."""

    entry: Entry
    name: str
    """Its local name; empty for the content of a folder without the folder itself."""


class DownloadPlan(Plan[str]):
    def of(self, wanted: list[RemoteSource], target: str, *, into: bool) -> Iterator[Item]:
        for one in wanted:
            local = os.path.join(target, one.name) if into and one.name else target
            if one.entry.is_folder:
                yield from self.of_folder(one.entry.path, local)
            elif self._has_folder(os.path.dirname(local), one.entry.path):
                yield from self._compared(one.entry, one.entry.path, local)
        yield from self._resolved()

    def of_folder(self, remote: str, local: str) -> Iterator[Item]:
        waiting = [(remote, local)]
        tree = RemoteTree(self._client, remote)
        while waiting:
            there, here = waiting.pop()
            if here != local and os.path.islink(here):
                # Its target is outside the folder and must not be changed or deleted.
                self._report.fail(there, NotPossible(f"'{there}' was skipped, because {here} is a link."))
                continue
            if not self._has_folder(here, there):
                continue
            # Listed before the first download, so that no file created by it is found.
            before = os.listdir(here) if self._whole and os.path.isdir(here) else []
            names = set()
            folders = []
            with report_missing(there, folder=True):
                for entry in tree.content(there):
                    try:
                        check_name(entry.name)  # it becomes part of a local path
                    except ClientError as error:
                        self._report.fail(join(there, entry.name), error)
                        continue
                    names.add(entry.name)
                    path, target = join(there, entry.name), os.path.join(here, entry.name)
                    if entry.is_folder:
                        folders.append((path, target))
                    else:
                        yield from self._compared(entry, path, target)
            yield from self._resolved()
            for name in sorted({*before} - names):
                if not is_partial_file(name) and self._is_extra(join(there, name), os.path.join(here, name)):
                    self.extra.append(os.path.join(here, name))
            waiting += reversed(folders)

    def _is_extra(self, remote: str, local: str) -> bool:
        """Whether the gateway does not have this. A folder that the user can't list is missing in the tree, too."""
        if os.path.islink(local) or not os.path.isdir(local):
            return True
        try:
            self._client.stat(remote)
        except (InvalidPath, NotFound, NotAFolder):
            return True
        except Forbidden as error:
            self._report.fail(remote, error)
        return False

    def _has_folder(self, local: str, remote: str) -> bool:
        try:
            if not self._options.dry_run:
                os.makedirs(local or ".", exist_ok=True)
        except OSError as error:
            self._report.fail(remote, error)
            return False
        return True

    def _compared(self, entry: Entry, remote: str, local: str) -> Iterator[Item]:
        report = self._report
        try:
            status = os.stat(local)
        except FileNotFoundError:
            status = None
        except OSError as error:
            report.fail(remote, error)
            return
        if status and self._options.no_clobber:
            report.skipped += 1
        elif status and stat.S_ISDIR(status.st_mode):
            report.fail(remote, IsADirectoryError(21, os.strerror(21), local))
        elif not (status and self._is_set_aside(remote, entry, local, status, down=True)):
            yield Item(remote, local, entry.size or 0, entry)

    def _different(self, candidate: Candidate, entry: Entry, status: os.stat_result) -> Iterator[Item]:
        yield Item(candidate.path, candidate.local, entry.size or 0, entry)
