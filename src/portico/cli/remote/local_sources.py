"""Local files and folders to upload."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from types import SimpleNamespace

from portico.cli.console.exits import Missing, UsageMistake
from portico.cli.remote.report import Report
from portico.cli.remote.transfer_record import folder as record_folder
from portico.cli.remote.values import check_unique_names, is_pattern
from portico.model.visible_text import visible


@dataclass(frozen=True, slots=True)
class LocalSource:
    """A local file or folder given on the command line."""

    path: str
    status: os.stat_result
    name: str
    """Its name on the gateway; empty for the content of a folder without the folder itself."""

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_regular(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)


@dataclass(slots=True)
class LocalFolder:
    files: dict[str, os.stat_result] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """What is neither and is not uploaded."""

    @property
    def names(self) -> set[str]:
        return {*self.files, *self.folders, *self.others}


def local_sources(sources: list[str], options: SimpleNamespace, report: Report) -> list[LocalSource]:
    def look(source: str) -> Iterator[LocalSource]:
        return (_named(path, recursive=options.recursive) for path in _expanded(source, options))

    def names(source: LocalSource) -> Iterable[str]:
        """The names that the source takes in the target."""
        content = os.listdir(source.path) if not source.name else []
        return [source.name] if source.name else (name for name in content if not is_partial_file(name))

    found = report.collected(sources, look)
    if len(found) > 1:
        check_unique_names(name for source in found for name in names(source))
    return found


def is_partial_file(name: str) -> bool:
    return name.startswith(".") and name.endswith(".portico-part")


def _expanded(source: str, options: SimpleNamespace) -> list[str]:
    if os.path.lexists(source):
        return [source]
    matches = sorted(glob(source)) if is_pattern(source) else []
    if not matches:
        folder = options.recursive or source.endswith("/")
        raise Missing(f"Local {'folder' if folder else 'file'} '{source}' not found.", folder=folder)
    return matches


def _named(path: str, *, recursive: bool) -> LocalSource:
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        return LocalSource(path, status, os.path.basename(path))
    if not recursive:
        raise UsageMistake(f"'{path}' is a folder; to upload it with its content, add -r.")
    content = os.path.basename(path) in (".", "..")
    return LocalSource(path, status, "" if content else os.path.basename(os.path.abspath(path)))


def list_folder(folder: str, report: Report) -> LocalFolder:
    """List a folder. Links to files are followed; links to folders are not, since they may form cycles.

    Unfinished downloads and the folder of transfer records are left out.
    """
    content = LocalFolder()
    with os.scandir(folder) as entries:
        found = sorted((entry for entry in entries if not is_partial_file(entry.name)), key=lambda entry: entry.name)
    record = record_folder()
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            if not record or entry.name != record.name or not _is_same_file(entry.path, record):
                content.folders.append(entry.name)
            continue
        try:
            # On Windows, DirEntry.stat lacks the inode.
            status = os.stat(entry.path) if os.name == "nt" else entry.stat()
        except OSError as error:
            content.others.append(entry.name)
            report.fail(entry.path, error)
            continue
        if stat.S_ISREG(status.st_mode):
            content.files[entry.name] = status
        else:
            content.others.append(entry.name)
            kind = "a link to a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            report.note(f"{visible(entry.path)} was skipped, because it is {kind}.")
    return content


def _is_same_file(path: str, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
