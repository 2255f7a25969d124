"""What the commands of `portico share` do."""

from dataclasses import asdict
from types import SimpleNamespace

from portico.cli.console.exits import DONE, UsageMistake
from portico.cli.console.output import print_json, show_list
from portico.cli.console.terminal import read_standard_input
from portico.cli.remote.connect import connect
from portico.cli.remote.values import from_now, parsed
from portico.client.shares import LinkKind, LinkOptions, ShareLink
from portico.settings import parsers

_KINDS: dict[str, LinkKind] = {"download": "download", "request": "request", "both": "both"}


def add(options: SimpleNamespace) -> int:
    if options.kind not in _KINDS:
        raise UsageMistake(f"--kind must be one of {', '.join(_KINDS)}.")
    chosen = _options(options)
    with connect(options) as client:
        link = client.share(options.path, _KINDS[options.kind], **chosen)
        _show_new(link, as_json=options.as_json)
    return DONE


def list_(options: SimpleNamespace) -> int:
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
    return DONE


def address(options: SimpleNamespace) -> int:
    with connect(options) as client:
        _show_new(client.renew_link(options.id), as_json=options.as_json)
    return DONE


def end(options: SimpleNamespace) -> int:
    with connect(options) as client:
        client.end_link(options.id)
    print(f"Ended the link {options.id}.")
    return DONE


def log(options: SimpleNamespace) -> int:
    with connect(options) as client:
        accesses = client.link_accesses(options.id)
    rows = [asdict(access) for access in accesses]
    show_list(rows, as_json=options.as_json, empty="This link has not been used yet.")
    return DONE


def _show_new(link: ShareLink, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(link))
    else:
        print(link.address)


def _of(count: int, most: int | None) -> str:
    return str(count) if most is None else f"{count}/{most}"


def _options(options: SimpleNamespace) -> LinkOptions:
    chosen: LinkOptions = {}
    if options.title:
        chosen["title"] = options.title
    if options.note:
        chosen["note"] = options.note
    if options.password_stdin:
        chosen["password"] = read_standard_input()
    if options.expires:
        chosen["expires_at"] = parsed("--expires", options.expires, from_now)
    number = parsers.whole_number(1, 10**15)
    if options.max_downloads:
        chosen["max_downloads"] = parsed("--max-downloads", options.max_downloads, number)
    if options.max_uploads:
        chosen["max_uploads"] = parsed("--max-uploads", options.max_uploads, number)
    if options.max_bytes:
        chosen["max_bytes"] = parsed("--max-bytes", options.max_bytes, parsers.size)
    if options.types:
        chosen["types"] = options.types.split(",")
    if options.no_name:
        chosen["ask_name"] = False
    if options.folder_per_sender:
        chosen["folder_per_sender"] = True
    return chosen
