"""What is not yet here of what the gateway has."""

import os
import stat
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass

from portico.cli.remote.locals import is_part
from portico.cli.remote.paths import looking_for
from portico.cli.remote.sameness import Sameness
from portico.cli.remote.tallies import Tally
from portico.cli.remote.transfers import Item
from portico.client.client import Client
from portico.client.comparisons import Candidate
from portico.client.entries import Entry
from portico.client.errors import ClientError, NotPossible
from portico.client.paths import check_name, join


@dataclass(frozen=True, slots=True)
class Wanted:
    """Something at the gateway that was named on the command line."""

    entry: Entry
    name: str
    """Which it shall have here; empty if not the folder but its content is meant."""


class DownloadPlan:
    """Compares what is there with what is here, folder by folder, and says what is to be fetched."""

    def __init__(
        self, client: Client, options: Namespace, tally: Tally, sameness: Sameness, *, whole: bool = False
    ) -> None:
        """If the comparison is to be `whole`, `extra` will hold the local paths of what is here and not there."""
        self._client = client
        self._options = options
        self._tally = tally
        self._sameness = sameness
        self._doubtful: list[tuple[Candidate, Entry, os.stat_result]] = []
        self._whole = whole
        self.extra: list[str] = []

    def of(self, wanted: list[Wanted], target: str, *, into: bool) -> Iterator[Item]:
        for one in wanted:
            local = os.path.join(target, one.name) if into and one.name else target
            if one.entry.is_folder:
                yield from self.of_folder(one.entry.path, local)
            elif self._has_folder(os.path.dirname(local), one.entry.path):
                yield from self._compared(one.entry, one.entry.path, local)
        yield from self._resolved()

    def of_folder(self, remote: str, local: str) -> Iterator[Item]:
        """What is to be fetched of the content of a folder."""
        waiting = [(remote, local)]
        while waiting:
            there, here = waiting.pop()
            if here != local and os.path.islink(here):
                # What is behind it is outside the target: not ours to change, and still less to delete.
                self._tally.fail(there, NotPossible(f"{here} is a link here; '{there}' was left out."))
                continue
            if not self._has_folder(here, there):
                continue
            # Looked at before the first file is on its way, so that no file of our own making is found.
            before = os.listdir(here) if self._whole and os.path.isdir(here) else []
            names = set()
            folders = []
            with looking_for(there, folder=True):
                for entry in self._client.list(there):
                    try:
                        check_name(entry.name)  # it becomes a part of a local path
                    except ClientError as error:
                        self._tally.fail(join(there, entry.name), error)
                        continue
                    names.add(entry.name)
                    path, target = join(there, entry.name), os.path.join(here, entry.name)
                    if entry.is_folder:
                        folders.append((path, target))
                    else:
                        yield from self._compared(entry, path, target)
            yield from self._resolved()
            extra = sorted(name for name in {*before} - names if not is_part(name))
            self.extra += [os.path.join(here, name) for name in extra]
            waiting += reversed(folders)

    def _has_folder(self, local: str, remote: str) -> bool:
        try:
            if not self._options.dry_run:
                os.makedirs(local or ".", exist_ok=True)
        except OSError as error:
            self._tally.fail(remote, error)
            return False
        return True

    def _compared(self, entry: Entry, remote: str, local: str) -> Iterator[Item]:
        options, tally = self._options, self._tally
        try:
            status = os.stat(local)
        except FileNotFoundError:
            status = None
        except OSError as error:
            tally.fail(remote, error)
            return
        if status and options.no_clobber:
            tally.skip()
        elif status and stat.S_ISDIR(status.st_mode):
            tally.fail(remote, IsADirectoryError(21, os.strerror(21), local))
        elif status and not options.force:
            verdict = self._sameness.judge(remote, entry, local, status, down=True)
            if isinstance(verdict, Candidate):
                self._doubtful.append((verdict, entry, status))
            elif verdict:
                tally.skip()
            else:
                yield Item(remote, local, entry.size or 0, entry)
        else:
            yield Item(remote, local, entry.size or 0, entry)

    def _resolved(self) -> Iterator[Item]:
        """Compare what can be told in no other way."""
        doubtful, self._doubtful = self._doubtful, []
        equal = self._sameness.equal(doubtful)
        for candidate, entry, _ in doubtful:
            if candidate.path in equal:
                self._tally.skip()
            else:
                yield Item(candidate.path, candidate.local, entry.size or 0, entry)
