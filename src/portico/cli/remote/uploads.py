"""`portico put`: uploads of local files and folders, or of standard input."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import BinaryIO

from portico.cli.console.exits import DONE, UsageMistake
from portico.cli.console.output import print_json, tell
from portico.cli.console.terminal import standard_input
from portico.cli.remote import transfer_record
from portico.cli.remote.connect import Gateway, connect
from portico.cli.remote.local_sources import LocalSource, local_sources
from portico.cli.remote.report import ProgressBar, Report, bare
from portico.cli.remote.transfers import Item, transfer
from portico.cli.remote.upload_plan import UploadPlan
from portico.cli.remote.values import is_folder
from portico.client.client import Client
from portico.client.entries import Entry
from portico.client.files import OnConflict
from portico.client.paths import clean, join
from portico.client.transfers.progress import Progress, Receipt, Received
from portico.client.transfers.uploads import HASHED_BEFORE
from portico.model.visible_text import visible

_CHUNK = 256 * 1024


def put(options: SimpleNamespace) -> int:
    *sources, target = options.paths
    report = Report("uploaded", options)
    with connect(options, connections=options.jobs, resume_folder=transfer_record.folder()) as client:
        if sources == ["-"]:
            return _put_stream(client, options, standard_input(), target, report)
        if "-" in sources:
            raise UsageMistake(
                "Standard input can't be combined with other sources; upload the files with another command."
            )
        named = local_sources(sources, options, report)
        if len(named) == 1 and _is_stream(named[0]):
            if named[0].is_regular and is_folder(client, target):
                target = join(clean(target), named[0].name)
            with open(named[0].path, "rb", buffering=0) as stream:
                return _put_stream(client, options, iter(lambda: stream.read(_CHUNK), b""), target, report)
        if named:
            into = len(sources) > 1 or len(named) > 1 or named[0].is_folder or is_folder(client, target)
            with client.record() as record:
                plan = UploadPlan(client, options, report, record)
                upload(client, options, plan.of_sources(named, clean(target), into=into), report, plan.comparison.sent)
    return report.finish()


def upload(client: Gateway, options: SimpleNamespace, plan: Iterator[Item], report: Report, remember: Received) -> None:
    conflict = _on_conflict(options)

    def send(items: Iterator[Item], progress: Progress) -> None:
        pairs = ((item.source, item.target) for item in items)
        client.upload_all(
            pairs,
            on_conflict=conflict,
            verify=options.verify or HASHED_BEFORE,
            times=not options.no_times,
            receipts=options.as_json,
            progress=progress,
            stored=stored,
            resume=not options.no_resume,
            resumed=report.resume,
        )

    def stored(receipt: Receipt) -> None:
        remember(receipt)
        _print_stored(options, receipt.path, receipt.entry, receipt.local, receipt.resumed)

    transfer(plan, send, report, options, lambda: client.has_unfinished_uploads)


def _put_stream(
    client: Client, options: SimpleNamespace, stream: BinaryIO | Iterator[bytes], target: str, report: Report
) -> int:
    if is_folder(client, target):
        raise UsageMistake(f"'{target}' is a folder; add a file name.")
    if options.dry_run:
        facts = {"source": "-", "path": clean(target), "dryRun": True}
        tell(f"upload a stream to {clean(target)}", facts, as_json=options.as_json)
        return DONE
    with ProgressBar(report):
        entry = client.upload(
            stream,
            target,
            on_conflict=_on_conflict(options),
            verify=options.verify,
            receipt=options.as_json,
            progress=report.progress,
        )
    _print_stored(options, clean(target), entry, None)
    report.begun = 1
    return report.finish()


def _is_stream(named: LocalSource) -> bool:
    """Whether the size is unknown: it is a pipe or device, such as `<(command)`, or a kernel file such as those in /proc."""
    if not named.is_regular or named.status.st_size:
        return not (named.is_folder or named.is_regular)
    with open(named.path, "rb", buffering=0) as file:
        return bool(file.read(1))


def _print_stored(
    options: SimpleNamespace, path: str, entry: Entry | None, local: str | None, resumed: int = 0
) -> None:
    """Print the stored file as JSON, or its name if that differs from the requested one."""
    if entry is None:
        print(
            f"The gateway didn't report the name under which it stored '{visible(path)}'. List the folder to find it.",
            file=sys.stderr,
        )
        return
    if options.as_json:
        facts = {
            "source": local or "-",
            "path": entry.path,
            "name": entry.name,
            "size": entry.size,
            "lastModified": entry.last_modified,
            "etag": bare(entry.etag),
            "digest": entry.digest,
            "receipt": entry.receipt,
            "resumed": resumed or None,
        }
        print_json(facts)
    elif entry.path != path:
        # In one write, since several threads print.
        sys.stdout.write(visible(f"{local or 'Standard input'} is stored as {entry.path}") + "\n")


def _on_conflict(options: SimpleNamespace) -> OnConflict | None:
    if options.rename:
        return "rename"
    return "fail" if options.no_clobber else None
