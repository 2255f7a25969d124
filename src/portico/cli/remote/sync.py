"""`portico sync`: one-way synchronisation of a folder."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace

from portico.cli.console.exits import Missing, UsageMistake
from portico.cli.console.output import print_json, tell
from portico.cli.remote import transfer_record
from portico.cli.remote.connect import Gateway, connect
from portico.cli.remote.download_plan import DownloadPlan
from portico.cli.remote.downloads import download
from portico.cli.remote.report import Halt, Report
from portico.cli.remote.transfer_record import TransferRecord
from portico.cli.remote.upload_plan import UploadPlan
from portico.cli.remote.uploads import upload
from portico.cli.remote.values import find
from portico.client.errors import ClientError, NotAFolder
from portico.client.paths import clean


def sync(options: SimpleNamespace) -> int:
    if len(options.paths) != 2:
        raise UsageMistake("'portico sync' needs exactly one source and one target; see 'portico sync --help'.")
    source, target = options.paths
    act = _up if options.direction == "up" else _down
    report = Report("uploaded" if act is _up else "downloaded", options)
    place = transfer_record.folder() if act is _up else None
    with connect(options, connections=options.jobs, resume_folder=place) as client, client.record() as record:
        act(client, options, source, target, report, record)
    return report.finish()


def _up(
    client: Gateway, options: SimpleNamespace, local: str, remote: str, report: Report, record: TransferRecord
) -> None:
    if not os.path.isdir(local):
        raise Missing(f"Local folder '{local}' not found.", folder=True)
    plan = UploadPlan(client, options, report, record, whole=options.delete)
    upload(client, options, plan.of_folder(local, clean(remote)), report, plan.comparison.sent)
    found = [(f"{entry.path}{'/' * entry.is_folder}", entry.path) for entry in plan.extra]
    _delete(found, "path", lambda path: client.delete(path, recursive=True), options, report)


def _down(
    client: Gateway, options: SimpleNamespace, remote: str, local: str, report: Report, record: TransferRecord
) -> None:
    if not find(client, remote, folder=True).is_folder:
        raise NotAFolder(f"'{clean(remote)}' is a file; download it with 'portico get'.")
    plan = DownloadPlan(client, options, report, record, whole=options.delete)
    download(client, options, plan.of_folder(clean(remote), local), report, plan.comparison.fetched)
    _delete([(path, path) for path in plan.extra], "target", _remove, options, report)


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
