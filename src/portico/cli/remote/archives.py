"""`portico get --zip`: files and folders as one archive."""

import os
import posixpath
import sys
from types import SimpleNamespace

from portico.cli.console.exits import DONE
from portico.cli.console.output import print_json
from portico.cli.console.terminal import standard_output
from portico.cli.remote import values
from portico.cli.remote.connect import connect
from portico.cli.remote.report import ProgressBar, Report
from portico.cli.remote.values import expand_patterns, report_missing
from portico.client.paths import clean, split
from portico.model.visible_text import visible


def get_zip(options: SimpleNamespace, sources: list[str], target: str) -> int:
    with connect(options) as client:
        paths = [clean(path) for path in expand_patterns(client, sources, folder=True)]
        folder, chosen = _below_one_folder(paths)
        place = _place(folder, target)
        if options.dry_run:
            if options.as_json:
                print_json({"paths": paths, "target": place, "dryRun": True})
            else:
                print(visible(f"download {', '.join(paths)} to {place}"))
            return DONE
        if options.no_clobber and os.path.lexists(place):
            print(f"'{visible(place)}' exists and is kept.", file=sys.stderr)
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
