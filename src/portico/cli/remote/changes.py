"""`portico mkdir`, `mv`, `cp` and `rm`: changes on the gateway."""

import sys
from collections.abc import Callable, Iterable
from types import SimpleNamespace

from portico.cli.console.exits import DONE, Missing, UsageMistake
from portico.cli.console.output import print_json, tell
from portico.cli.remote.command import common_code, sentence
from portico.cli.remote.connect import connect
from portico.cli.remote.jobs import job_line
from portico.cli.remote.values import check_unique_names, expand_patterns, find, is_folder, name_of, report_missing
from portico.client.client import Client
from portico.client.errors import COMMON, AlreadyExists, ClientError, FolderNotEmpty, NotPossible
from portico.client.paths import clean, join
from portico.model.visible_text import visible


def mkdir(options: SimpleNamespace) -> None:
    with connect(options) as client:
        for path in options.paths:
            client.make_folder(path)
            if options.as_json:
                print_json({"path": clean(path)})


def mv(options: SimpleNamespace) -> int:
    return _transfer(options, Client.move)


def cp(options: SimpleNamespace) -> int:
    return _transfer(options, Client.copy)


def rm(options: SimpleNamespace) -> int:
    with connect(options) as client:

        def remove(path: str) -> None:
            if options.dry_run:
                entry = find(client, path, folder=options.recursive)
                facts = {"path": entry.path, "deleted": False, "dryRun": True}
                tell(f"delete {entry.path}{'/' * entry.is_folder}", facts, as_json=options.as_json)
                return
            try:
                is_named_folder = options.recursive or path.endswith("/")
                with report_missing(path, folder=is_named_folder), job_line(client) as progress:
                    trash_id = client.delete(
                        path, recursive=options.recursive, permanent=options.permanent, progress=progress
                    )
            except FolderNotEmpty:
                raise NotPossible(
                    f"'{clean(path)}' is not empty; to delete the folder with its content, add -r."
                ) from None
            if options.as_json:
                print_json({"path": clean(path), "deleted": True, "trashId": trash_id})

        return _each(expand_patterns(client, options.paths, folder=options.recursive), remove, options)


def _transfer(options: SimpleNamespace, act: Callable[..., object]) -> int:
    *sources, target = options.paths
    is_copy = act is Client.copy
    with connect(options) as client:
        paths = expand_patterns(client, sources)
        into = len(paths) > 1 or is_folder(client, target)
        check_unique_names(path.rstrip("/").rpartition("/")[2] for path in paths)

        def transfer(path: str) -> None:
            entry = find(client, path)
            if is_copy and entry.is_folder and not options.recursive:
                raise UsageMistake(f"'{entry.path}' is a folder; to copy it with its content, add -r.")
            place = join(clean(target), name_of(path)) if into else clean(target)
            if place == clean(path):
                raise NotPossible(f"'{place}' is both the source and the target; choose another target.")
            try:
                with job_line(client) as progress:
                    on_conflict = "fail" if options.no_clobber else None
                    act(client, path, place, on_conflict=on_conflict, progress=progress)
            except AlreadyExists:
                if not options.no_clobber:
                    raise
                print(f"'{visible(place)}' already exists; it was not replaced.", file=sys.stderr)
                return
            if options.as_json:
                print_json({"source": entry.path, "path": place})

        return _each(paths, transfer, options)


def _each(paths: Iterable[str], act: Callable[[str], None], options: SimpleNamespace) -> int:
    """Act on each path, until the first error or, with --continue-on-error, on all."""
    failures: dict[str, Exception] = {}
    for path in paths:
        try:
            act(path)
        except (ClientError, Missing, UsageMistake) as error:
            if not options.goes_on or isinstance(error, COMMON):
                raise
            text = sentence(error)
            print(visible(text if path in text else f"{path}: {text}", lines=True), file=sys.stderr)
            failures[path] = error
    return common_code(failures) if failures else DONE
