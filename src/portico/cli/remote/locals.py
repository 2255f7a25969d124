"""Local files and folders: as they are named on the command line, and as they are found in a folder."""

import os
import stat
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path

from portico.cli.exits import Missing, UsageMistake
from portico.cli.remote.paths import is_pattern, refuse_twins
from portico.cli.remote.records import folder as folder_of_records
from portico.cli.remote.tallies import Tally


@dataclass(frozen=True, slots=True)
class Named:
    """Something that was named on the command line."""

    path: str
    status: os.stat_result
    name: str
    """Under which it is known elsewhere; empty if not the folder but its content is meant."""

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_regular(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)


@dataclass(slots=True)
class Content:
    """What is in a folder."""

    files: dict[str, os.stat_result] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """What is neither, and stays where it is."""

    @property
    def names(self) -> set[str]:
        return {*self.files, *self.folders, *self.others}


def named_sources(sources: list[str], options: Namespace, tally: Tally) -> list[Named]:
    """What the words on the command line stand for; all of it is looked at before anything is done."""
    found: list[Named] = []
    for source in sources:
        try:
            found += (_named(path, recursive=options.recursive) for path in _expanded(source, options))
        except (Missing, UsageMistake, OSError) as error:
            if not tally.goes_on:
                raise
            tally.failures[source] = error
    if len(found) > 1:
        refuse_twins(name for named in found for name in _names(named))
    return found


def is_part(name: str) -> bool:
    """Whether a file is, by its name, one that is still being downloaded."""
    return name.startswith(".") and name.endswith(".portico-part")


def _names(named: Named) -> Iterator[str]:
    """Which names it takes in the target."""
    if named.name:
        yield named.name
    else:
        yield from (name for name in os.listdir(named.path) if not is_part(name))


def _expanded(source: str, options: Namespace) -> list[str]:
    if os.path.lexists(source):
        return [source]
    matches = sorted(glob(source)) if is_pattern(source) else []
    if not matches:
        folder = options.recursive or source.endswith("/")
        raise Missing(f"There is no {'folder' if folder else 'file'} '{source}' here.", folder=folder)
    return matches


def _named(path: str, *, recursive: bool) -> Named:
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        return Named(path, status, os.path.basename(path))
    if not recursive:
        raise UsageMistake(f"'{path}' is a folder; add -r to send all that is in it.")
    content = os.path.basename(path) in (".", "..")
    return Named(path, status, "" if content else os.path.basename(os.path.abspath(path)))


def content_of(folder: str, tally: Tally) -> Content:
    """What is in a folder. Links to files are followed, links to folders are not: they may lead in circles.

    What is still being downloaded is passed over: half a file is nobody's content. So is what the transfer itself
    writes, to remember what it has sent.
    """
    content = Content()
    with os.scandir(folder) as entries:
        found = sorted((entry for entry in entries if not is_part(entry.name)), key=lambda entry: entry.name)
    record = folder_of_records()
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            if not record or entry.name != record.name or not _is_same_file(entry.path, record):
                content.folders.append(entry.name)
            continue
        try:
            # On Windows, what a folder says of its files lacks their identity.
            status = os.stat(entry.path) if os.name == "nt" else entry.stat()
        except OSError as error:
            content.others.append(entry.name)
            tally.fail(entry.path, error)
            continue
        if stat.S_ISREG(status.st_mode):
            content.files[entry.name] = status
        else:
            content.others.append(entry.name)
            kind = "a link to a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
            tally.note(f"{entry.path} is {kind}; it was left out.")
    return content


def _is_same_file(path: str, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
