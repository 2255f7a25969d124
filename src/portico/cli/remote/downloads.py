"""`portico get` and `portico cat`: downloads to local files or standard output, or as one ZIP."""

import os
import posixpath
import sys
from collections.abc import Iterable, Iterator
from types import SimpleNamespace

from portico.cli.console.exits import DONE, UsageMistake
from portico.cli.console.output import print_json, tell
from portico.cli.console.terminal import standard_output
from portico.cli.remote import values
from portico.cli.remote.connect import connect
from portico.cli.remote.download_plan import DownloadPlan, RemoteSource
from portico.cli.remote.report import ProgressBar, Report, bare
from portico.cli.remote.transfers import Item, transfer
from portico.cli.remote.values import (
    check_unique_names,
    expand_patterns,
    find,
    is_pattern,
    name_of,
    parse_source,
    report_missing,
)
from portico.client.client import Client
from portico.client.errors import IsAFolder
from portico.client.paths import clean, split
from portico.client.transfers.downloads import RANGE
from portico.client.transfers.progress import Progress, Receipt, Received
from portico.model.visible_text import visible

_NO_FOLDERS = "A folder can't be written to standard output; choose a file."


def get(options: SimpleNamespace) -> int:
    *sources, target = options.paths if len(options.paths) > 1 else [*options.paths, "."]
    if target == "-" and options.as_json:
        raise UsageMistake("--json can't be combined with standard output as the target.")
    if target == "-" and not options.zip:
        if any(parse_source(source)[1] for source in sources):
            raise UsageMistake(_NO_FOLDERS)
        options.paths = sources
        cat(options)
        return DONE
    if options.zip:
        return get_zip(options, sources, target)
    report = Report("downloaded", options)
    with connect(options, connections=options.jobs) as client:
        wanted = _wanted(client, sources, options, report)
        if wanted:
            many = len(sources) > 1 or is_pattern(sources[0]) or any(one.entry.is_folder for one in wanted)
            into = many or target.endswith("/") or os.path.isdir(target)
            with client.record() as record:
                plan = DownloadPlan(client, options, report, record)
                download(client, options, plan.of(wanted, target, into=into), report, plan.comparison.fetched)
    return report.finish()


def cat(options: SimpleNamespace) -> None:
    out = standard_output().buffer
    with connect(options) as client:
        for path in expand_patterns(client, options.paths):
            with report_missing(path):
                try:
                    client.download(path, out)
                except IsAFolder:
                    raise IsAFolder(
                        _NO_FOLDERS
                        if options.command == "get"
                        else f"'{clean(path)}' is a folder; choose a file in it."
                    ) from None


def download(
    client: Client, options: SimpleNamespace, plan: Iterator[Item], report: Report, remember: Received
) -> None:
    unverified: list[str] = []

    def fetch(items: Iterator[Item], progress: Progress) -> None:
        # As entries, so that local files get their modification times and are recognised by them later.
        pairs = ((item.entry or item.source, item.target) for item in items)
        client.download_all(
            pairs,
            resume=not options.no_resume,
            resumed=report.resume,
            progress=progress,
            fetched=fetched,
            times=not options.no_times,
            verify=options.verify,
        )

    def fetched(receipt: Receipt) -> None:
        remember(receipt)
        if options.verify and not receipt.verified:
            unverified.append(receipt.path)
        if options.as_json:
            print_json(_facts(receipt, compared=options.verify))

    transfer(plan, fetch, report, options, lambda: not options.no_resume and report.is_half_done(RANGE))
    if unverified:
        report.note(f"{len(unverified)} of the files were not verified, because the gateway has no digest for them.")


def _facts(receipt: Receipt, *, compared: bool) -> dict[str, object]:
    """A downloaded file for --json."""
    entry, status = receipt.entry, receipt.status
    return {
        "path": receipt.path,
        "target": receipt.local,
        "size": entry.size if entry else status and status.st_size,
        "lastModified": entry and entry.last_modified,
        "etag": entry and bare(entry.etag),
        "digest": entry and entry.digest,
        "verified": receipt.verified if compared else None,
        "resumed": receipt.resumed or None,
    }


def _wanted(client: Client, sources: list[str], options: SimpleNamespace, report: Report) -> list[RemoteSource]:
    def look(source: str) -> Iterator[RemoteSource]:
        path, content = parse_source(source)
        for match in expand_patterns(client, [path], folder=options.recursive):
            entry = find(client, match, folder=options.recursive)
            if entry.is_folder and not options.recursive:
                raise UsageMistake(f"'{match}' is a folder; to download it with its content, add -r.")
            yield RemoteSource(entry, "" if content else name_of(match))

    def names(wanted: RemoteSource) -> Iterable[str]:
        """The names that the source takes in the target."""
        return [wanted.name] if wanted.name else (entry.name for entry in client.list(wanted.entry.path))

    found = report.collected(sources, look)
    if len(found) > 1:
        check_unique_names(name for wanted in found for name in names(wanted))
    return found


def get_zip(options: SimpleNamespace, sources: list[str], target: str) -> int:
    with connect(options) as client:
        paths = [clean(path) for path in expand_patterns(client, sources, folder=True)]
        folder, chosen = _below_one_folder(paths)
        place = _place(folder, target)
        if options.dry_run:
            facts = {"paths": paths, "target": place, "dryRun": True}
            tell(f"download {', '.join(paths)} to {place}", facts, as_json=options.as_json)
            return DONE
        if options.no_clobber and os.path.lexists(place):
            print(f"'{visible(place)}' already exists; it was not replaced.", file=sys.stderr)
            return DONE
        report = Report("downloaded", options)
        with ProgressBar(report), report_missing(paths[0]):
            destination = standard_output().buffer if place == "-" else place
            client.download_zip(folder, destination, paths=chosen, progress=report.progress)
    if options.as_json:
        print_json({"paths": paths, "target": place, "size": os.path.getsize(place)})
    elif place != "-" and not options.quiet:
        print(f"Downloaded {visible(place)}, {values.size(os.path.getsize(place))}.", file=sys.stderr)
    return DONE


def _below_one_folder(paths: list[str]) -> tuple[str, list[str]]:
    """A folder that holds all of them, and their paths in it; for a single one, only that."""
    if len(paths) == 1:
        return paths[0], []
    folder = posixpath.commonpath([split(path)[0] for path in paths])
    return folder, [posixpath.relpath(path, folder) for path in paths]


def _place(folder: str, target: str) -> str:
    if target.endswith(os.sep) or os.path.isdir(target):
        os.makedirs(target, exist_ok=True)
        return os.path.normpath(os.path.join(target, f"{split(folder)[1] or 'files'}.zip"))
    return target
