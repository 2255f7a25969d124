"""The work of `portico trash`."""

import json
import sys
from collections.abc import Iterator
from types import SimpleNamespace

from portico.cli.exits import DONE, UsageMistake
from portico.cli.remote.connect import connect
from portico.cli.remote.job_progress import JobLine
from portico.cli.terminal import speaks_unicode, standard_output
from portico.client.client import Client
from portico.client.errors import NotFound
from portico.client.files import OnConflict
from portico.client.paths import clean
from portico.client.trash import TrashedItem
from portico.visible_text import visible


def list_trash(options: SimpleNamespace) -> int:
    out = standard_output()
    with connect(options) as client:
        for item in client.trash():
            if options.as_json:
                print(json.dumps(_fields(item), ensure_ascii=not speaks_unicode(out)))
                continue
            size = "" if item.size is None else item.size
            name = visible(item.path) + "/" * item.is_folder
            print(f"{item.id}  {item.deleted_at.astimezone():%Y-%m-%d %H:%M:%S}  {size:>14}  {name}")
    return DONE


def restore_items(options: SimpleNamespace) -> int:
    if options.rename and options.replace:
        raise UsageMistake("--rename and --replace exclude each other.")
    on_conflict: OnConflict = "rename" if options.rename else "replace" if options.replace else "fail"
    with connect(options) as client:
        for trash_id in _ids(client, options.paths):
            with JobLine(client) as line:
                path = client.restore(trash_id, on_conflict=on_conflict, progress=line.progress)
            print(visible(path))
    return DONE


def remove_items(options: SimpleNamespace) -> int:
    with connect(options) as client:
        for trash_id in _ids(client, options.paths):
            with JobLine(client) as line:
                client.remove_trashed(trash_id, progress=line.progress)
    return DONE


def empty_trash(options: SimpleNamespace) -> int:
    if not options.yes:
        if not sys.stdin.isatty():
            raise UsageMistake("Nothing in the trash can be brought back afterwards; add --yes to empty it.")
        print("Remove everything in the trash for good? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return DONE
    with connect(options) as client, JobLine(client) as line:
        client.empty_trash(progress=line.progress)
    return DONE


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


def _fields(item: TrashedItem) -> dict[str, object]:
    """The item with the field names of the API."""
    return {
        "id": item.id,
        "path": item.path,
        "name": item.name,
        "isFolder": item.is_folder,
        "size": item.size,
        "reason": item.reason,
        "deletedAt": item.deleted_at.isoformat(),
        "expiresAt": item.expires_at.isoformat(),
    }
