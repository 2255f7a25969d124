"""The work of `portico trash`."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from types import SimpleNamespace

from portico.cli.console.exits import UsageMistake
from portico.cli.console.output import print_json, tell
from portico.cli.console.terminal import standard_output
from portico.cli.remote.connect import connect
from portico.cli.remote.jobs import job_line
from portico.client.client import Client
from portico.client.errors import NotFound
from portico.client.files import OnConflict
from portico.client.paths import clean
from portico.model.visible_text import visible


def list_trash(options: SimpleNamespace) -> None:
    standard_output()  # if it is closed, say so before the first request
    with connect(options) as client:
        for item in client.trash():
            if options.as_json:
                print_json(asdict(item))
                continue
            size = "" if item.size is None else item.size
            name = visible(item.path) + "/" * item.is_folder
            print(f"{item.id}  {item.deleted_at.astimezone():%Y-%m-%d %H:%M:%S}  {size:>14}  {name}")


def restore_items(options: SimpleNamespace) -> None:
    if options.rename and options.replace:
        raise UsageMistake("--rename and --replace can't be combined; use one of them.")
    on_conflict: OnConflict = "rename" if options.rename else "replace" if options.replace else "fail"
    with connect(options) as client:
        for trash_id in _ids(client, options.paths):
            with job_line(client) as progress:
                path = client.restore(trash_id, on_conflict=on_conflict, progress=progress)
            tell(path, {"id": trash_id, "path": path}, as_json=options.as_json)


def remove_items(options: SimpleNamespace) -> None:
    with connect(options) as client:
        for trash_id in _ids(client, options.paths):
            with job_line(client) as progress:
                client.remove_trashed(trash_id, progress=progress)


def empty_trash(options: SimpleNamespace) -> None:
    if not options.yes:
        if not sys.stdin.isatty():
            raise UsageMistake("Emptying the trash can't be undone; add --yes to confirm.")
        print("Permanently remove everything in the trash? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return
    with connect(options) as client, job_line(client) as progress:
        client.empty_trash(progress=progress)


def _ids(client: Client, items: list[str]) -> Iterator[str]:
    """An item that has a slash is a path."""
    for item in items:
        if "/" not in item:
            yield item
            continue
        path = clean(item)
        found = next((each.id for each in client.trash() if each.path == path), None)
        if found is None:
            raise NotFound(f"'{path}' is not in the trash.")
        yield found
