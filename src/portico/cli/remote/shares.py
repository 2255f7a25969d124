"""What the commands of `portico share` do."""

from collections.abc import Callable
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, cast

from portico.cli.console.output import show_list, tell
from portico.cli.console.terminal import read_standard_input
from portico.cli.remote.connect import connect
from portico.cli.remote.values import from_now, given
from portico.client.shares import LinkOptions, ShareLink
from portico.settings import parsers

_COUNT = parsers.whole_number(1, 10**15)
_VALUES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "title": ("title", str),
    "note": ("note", str),
    "expires": ("expires_at", from_now),
    "max_downloads": ("max_downloads", _COUNT),
    "max_uploads": ("max_uploads", _COUNT),
    "max_bytes": ("max_bytes", parsers.size),
    "types": ("types", lambda text: text.split(",")),
}
"""The options that have a value: what the client calls each of them, and what parses it."""


def add(options: SimpleNamespace) -> None:
    chosen = cast("LinkOptions", given(options, _VALUES))
    if options.password_stdin:
        chosen["password"] = read_standard_input()
    if options.no_name:
        chosen["ask_name"] = False
    if options.folder_per_sender:
        chosen["folder_per_sender"] = True
    with connect(options) as client:
        _show_new(client.share(options.path, options.kind, **chosen), as_json=options.as_json)


def list_(options: SimpleNamespace) -> None:
    with connect(options) as client:
        links = client.links()
    rows = [
        asdict(link)
        if options.as_json
        else {
            "id": link.id,
            "path": link.path,
            "kind": link.kind,
            "state": link.state,
            "downloads": _of(link.downloads, link.max_downloads),
            "uploads": _of(link.uploads, link.max_uploads),
            "expires": link.expires_at,
        }
        for link in links
    ]
    show_list(rows, as_json=options.as_json, empty="You have no links; create one with 'portico share add PATH'.")


def address(options: SimpleNamespace) -> None:
    with connect(options) as client:
        _show_new(client.renew_link(options.id), as_json=options.as_json)


def end(options: SimpleNamespace) -> None:
    with connect(options) as client:
        client.end_link(options.id)
    print(f"Ended the link {options.id}.")


def log(options: SimpleNamespace) -> None:
    with connect(options) as client:
        accesses = client.link_accesses(options.id)
    rows = [asdict(access) for access in accesses]
    show_list(rows, as_json=options.as_json, empty="This link has not been used yet.")


def _show_new(link: ShareLink, *, as_json: bool) -> None:
    tell(link.address or "", asdict(link), as_json=as_json)


def _of(count: int, most: int | None) -> str:
    return str(count) if most is None else f"{count}/{most}"
