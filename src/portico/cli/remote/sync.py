"""`portico sync`: one-way synchronisation of a folder."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace

from portico.cli.console.exits import Missing, UsageMistake
from portico.cli.console.output import print_json, tell
from portico.cli.remote import transfer_record
from portico.cli.remote.connect import connect
from portico.cli.remote.download_plan import DownloadPlan
from portico.cli.remote.downloads import download
from portico.cli.remote.report import Halt, Report
from portico.cli.remote.upload_plan import UploadPlan
from portico.cli.remote.uploads import upload
from portico.cli.remote.values import find
from portico.client.errors import ClientError, NotAFolder
from portico.client.paths import clean


def sync(options: SimpleNamespace) -> int:
    if len(options.paths) != 2:
        raise UsageMistake("'portico sync' needs exactly one source and one target; see 'portico sync --help'.")
    source, target = options.paths
    up = options.direction == "up"
    report = Report("uploaded" if up else "downloaded", options)
    place = transfer_record.folder() if up else None
    with connect(options, connections=options.jobs, resume_folder=place) as client, client.record() as record:
        if up:
            if not os.path.isdir(source):
                raise Missing(f"Local folder '{source}' not found.", folder=True)
            uploads = UploadPlan(client, options, report, record, whole=options.delete)
            items = uploads.of_folder(source, clean(target))
            upload(client, options, items, report, uploads.comparison.sent)
            found = [(f"{entry.path}{'/' * entry.is_folder}", entry.path) for entry in uploads.extra]
            _delete(found, "path", lambda path: client.delete(path, recursive=True), options, report)
        else:
            if not find(client, source, folder=True).is_folder:
                raise NotAFolder(f"'{clean(source)}' is a file; download it with 'portico get'.")
            downloads = DownloadPlan(client, options, report, record, whole=options.delete)
            items = downloads.of_folder(clean(source), target)
            download(client, options, items, report, downloads.comparison.fetched)
            _delete([(path, path) for path in downloads.extra], "target", _remove, options, report)
    return report.finish()


def _delete(
    found: list[tuple[str, str]],
    name: str,
    remove: Callable[[str], str | None],
    options: SimpleNamespace,
    report: Report,
) -> None:
    """Delete what the source does not have, but only if everything was transferred.

    `name`: of the path in JSON. `remove` returns the id in the trash, if there is one.
    """
    if found and report.failures:
        report.note("Nothing was deleted, because not everything could be transferred.")
        return
    for shown, path in found:
        if options.dry_run:
            report.deleted += 1
            tell(f"delete {shown}", {name: path, "deleted": False, "dryRun": True}, as_json=options.as_json)
            continue
        try:
            trash_id = remove(path)
            report.deleted += 1
            if options.as_json:
                print_json({name: path, "deleted": True, "trashId": trash_id})
        except (ClientError, OSError) as error:
            try:
                report.fail(path, error)
            except Halt:
                return


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):  # already deleted
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
