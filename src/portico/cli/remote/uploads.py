"""`portico put`: local files and folders to the gateway, or standard input."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import BinaryIO

from portico.cli.exits import DONE, UsageMistake
from portico.cli.remote.bars import Bar
from portico.cli.remote.locals import Named, named_sources
from portico.cli.remote.opening import connect
from portico.cli.remote.paths import is_folder
from portico.cli.remote.sameness import Sameness
from portico.cli.remote.tallies import Tally
from portico.cli.remote.transfers import Item, transfer
from portico.cli.remote.upload_plan import UploadPlan
from portico.cli.terminal import standard_input
from portico.client.client import Client
from portico.client.entries import Entry
from portico.client.files import OnConflict
from portico.client.paths import clean, join
from portico.client.progress import Progress
from portico.client.receipts import Receipt, Received

_CHUNK = 256 * 1024


def put(options: Namespace) -> int:
    *sources, target = options.paths
    tally = Tally("uploaded", options)
    with connect(options, connections=options.jobs) as client:
        if sources == ["-"]:
            return _put_stream(client, options, standard_input(), target, tally)
        if "-" in sources:
            raise UsageMistake("Standard input is stored by itself; name the files in another command.")
        named = named_sources(sources, options, tally)
        if len(named) == 1 and _is_stream(named[0]):
            if named[0].is_regular and is_folder(client, target):
                target = join(clean(target), named[0].name)
            with open(named[0].path, "rb", buffering=0) as stream:
                return _put_stream(client, options, iter(lambda: stream.read(_CHUNK), b""), target, tally)
        if named:
            into = len(sources) > 1 or len(named) > 1 or named[0].is_folder or is_folder(client, target)
            with client.record() as record:
                sameness = Sameness(client, options, record)
                plan = UploadPlan(client, options, tally, sameness)
                upload(
                    client, options, plan.of_sources(named, clean(target), into=into), tally, sameness.sent
                )
    return tally.finish()


def upload(
    client: Client, options: Namespace, plan: Iterator[Item], tally: Tally, remember: Received
) -> None:
    """Send what a plan finds, or only say so."""
    if options.dry_run:
        for item in tally.halting(plan):
            tally.plan(item.size)
            print(f"upload {item.source} to {item.target}")
        return
    conflict = _on_conflict(options)

    def send(items: Iterator[Item], progress: Progress) -> None:
        pairs = ((item.source, item.target) for item in items)
        client.upload_all(pairs, on_conflict=conflict, progress=progress, stored=stored)

    def stored(receipt: Receipt) -> None:
        remember(receipt)
        _name(receipt.path, receipt.entry, receipt.local)

    transfer(plan, send, tally)


def _put_stream(
    client: Client, options: Namespace, stream: BinaryIO | Iterator[bytes], target: str, tally: Tally
) -> int:
    if is_folder(client, target):
        raise UsageMistake(f"'{target}' is a folder; add the name that the content shall have there.")
    if options.dry_run:
        print(f"upload a stream to {clean(target)}")
        return DONE
    with Bar(tally):
        entry = client.upload(stream, target, on_conflict=_on_conflict(options), progress=tally.progress)
    _name(clean(target), entry, None)
    tally.begun = 1
    return tally.finish()


def _is_stream(named: Named) -> bool:
    """Whether its size says nothing: of a pipe or a device, as `<(command)` is, or of a file as those in /proc are."""
    if not named.is_regular or named.status.st_size:
        return not (named.is_folder or named.is_regular)
    with open(named.path, "rb", buffering=0) as file:
        return bool(file.read(1))


def _name(path: str, entry: Entry | None, local: str | None) -> None:
    """Say under which name a file is stored, if it is another one than was asked for."""
    if entry is None:
        print(f"The gateway does not say under which name it stored '{path}'.", file=sys.stderr)
    elif entry.path != path:
        # In one piece, as several threads are here.
        sys.stdout.write(f"{local or 'Standard input'} is stored as {entry.path}\n")


def _on_conflict(options: Namespace) -> OnConflict | None:
    if options.rename:
        return "rename"
    return "fail" if options.no_clobber else None
