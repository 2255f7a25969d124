"""`portico sync`, both ways."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portico.cli.remote import downloads, sync
from portico.cli.remote.connect import connect
from portico.cli.remote.download_plan import DownloadPlan
from portico.cli.remote.remote_tree import RemoteTree
from portico.cli.remote.report import Report

from ...gateways import Gateway
from ...servers.proxy import Altered, FaultProxy
from ..conftest import Portico
from .conftest import last_line, make, sign_in, tree


def test_up(remote: Portico, here: Path, there: Path) -> None:
    make(here, site__a="1", site__sub__b="2")
    make(there, site__old="x", site__gone__c="y")
    assert last_line(remote("sync", "up", "site", "/site")).startswith("2 uploaded, 2 B")
    assert sorted(tree(there)) == ["site/a.txt", "site/gone/c.txt", "site/old.txt", "site/sub/b.txt"]
    dry = remote("sync", "up", "site", "/site", "--delete", "--dry-run")
    assert dry.out.splitlines() == ["delete /site/gone/", "delete /site/old.txt"]
    assert dry.err == "0 would be uploaded, 2 skipped, 2 would be deleted, 0 B\n"
    outcome = remote("sync", "up", "site", "/site", "--delete")
    assert last_line(outcome).startswith("0 uploaded, 2 skipped, 2 deleted")
    assert tree(there / "site") == tree(here / "site")


def test_down(remote: Portico, here: Path, there: Path) -> None:
    make(there, site__a="1", site__sub__b="2")
    make(here, copy__old="x", copy__gone__c="y", kept="z")
    (here / "copy" / "link").symlink_to(here)
    assert last_line(remote("sync", "down", "/site", "copy")).startswith("2 downloaded, 2 B")
    dry = remote("sync", "down", "/site", "copy", "--delete", "--dry-run")
    assert dry.out.splitlines() == ["delete copy/gone", "delete copy/link", "delete copy/old.txt"]
    assert len(tree(here / "copy")) == 4
    outcome = remote("sync", "down", "/site", "copy", "--delete")
    assert last_line(outcome).startswith("0 downloaded, 2 skipped, 3 deleted")
    assert tree(here / "copy") == tree(there / "site")
    assert (here / "kept.txt").read_text() == "z"


def test_what_has_changed(remote: Portico, here: Path, there: Path) -> None:
    make(here, d__a="1", d__b="1", d__c="1")
    remote("sync", "up", "d", "/d")
    make(here, d__a="longer")
    (here / "d" / "b.txt").write_text("2")
    os.utime(here / "d" / "b.txt", (4e9, 4e9))
    assert last_line(remote("sync", "up", "d", "/d")).startswith("2 uploaded, 1 skipped")
    assert tree(there / "d") == {"a.txt": "longer", "b.txt": "2", "c.txt": "1"}


def test_nothing_is_deleted_after_a_failure(remote: Portico, here: Path, there: Path) -> None:
    make(here, d__a="1")
    (here / "d" / "broken").symlink_to("nowhere")
    make(there, d__old="x", d__broken="stays")
    for arguments in (["--delete"], ["--delete", "-c"]):
        outcome = remote("sync", "up", "d", "/d", *arguments)
        assert outcome.code == 1
        assert (there / "d" / "old.txt").exists()
        assert (there / "d" / "broken.txt").exists()
    assert "Nothing was deleted" in outcome.err


def test_what_is_left_out_here_stays_there(remote: Portico, here: Path, there: Path) -> None:
    (here / "d").mkdir()
    os.mkfifo(here / "d" / "pipe")
    (there / "d").mkdir()
    (there / "d" / "pipe").write_text("kept")
    assert remote("sync", "up", "d", "/d", "--delete").code == 0
    assert tree(there) == {"d/pipe": "kept"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("up", "none", "/x"), 3),
        (("up", "a.txt", "/x"), 3),
        (("down", "/none", "x"), 3),
        (("down", "/f.txt", "x"), 1),
        (("here", "/x", "/y"), 2),
        (("up", "a"), 2),
        (("up", ".", "/x", "/y"), 2),
        ((), 2),
    ],
)
def test_failures(remote: Portico, here: Path, there: Path, arguments: tuple[str, ...], code: int) -> None:
    make(here, a="1")
    make(there, f="2")
    outcome = remote("sync", *arguments, "--delete")
    assert (outcome.code, outcome.err.count("\n")) == (code, 1), outcome.err
    assert tree(there) == {"f.txt": "2"}
    assert tree(here) == {"a.txt": "1"}


def test_nothing_is_changed_behind_a_link_here(remote: Portico, here: Path, there: Path) -> None:
    make(there, site__a="1", site__sub__b="2")
    make(here, outside__precious="kept")
    (here / "copy").mkdir()
    (here / "copy" / "sub").symlink_to(here / "outside")
    for options in (["--delete"], ["--delete", "-c"]):
        outcome = remote("sync", "down", "/site", "copy", *options)
        assert outcome.code == 1
        assert "'/site/sub' was skipped, because" in outcome.err
        assert tree(here / "outside") == {"precious.txt": "kept"}
    assert (here / "copy" / "a.txt").read_text() == "1"


def test_the_target_itself_may_be_a_link(remote: Portico, here: Path, there: Path) -> None:
    make(there, site__a="1")
    make(here, real__old="x")
    (here / "copy").symlink_to(here / "real")
    assert remote("sync", "down", "/site", "copy", "--delete").code == 0
    assert tree(here / "real") == {"a.txt": "1"}


def test_files_on_their_way_are_not_extra(remote: Portico, here: Path, there: Path) -> None:
    """The plan runs ahead of the transfers, or is slower than they are."""
    make(there, site__a="1", site__b="2")
    make(here, copy__old="x")
    (here / "copy" / ".other.portico-part").write_text("of another program")
    options = SimpleNamespace(dry_run=False, no_clobber=False, force=False, quiet=True, goes_on=False, checksum=False)
    with connect(SimpleNamespace(profile=None)) as client, client.record() as record:
        plan = DownloadPlan(client, options, Report("downloaded", options), record, whole=True)
        for item in plan.of_folder("/site", "copy"):
            Path(item.target).with_suffix(".12ab").write_text("half of it")
    assert plan.extra == ["copy/old.txt"]


def test_what_went_by_itself_is_gone(remote: Portico, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(there, site__a="1")
    make(here, copy__old="x")
    fetch = downloads.download

    def meddle(*arguments: Any) -> None:
        fetch(*arguments)
        (here / "copy" / "old.txt").unlink()

    monkeypatch.setattr(sync, "download", meddle)
    outcome = remote("sync", "down", "/site", "copy", "--delete")
    assert (outcome.code, outcome.err.count("\n")) == (0, 1), outcome.err


def test_what_came_down_does_not_go_up_again(remote: Portico, here: Path, there: Path) -> None:
    make(there, site__a="1", site__sub__b="2")
    past = 1_700_000_000
    os.utime(there / "site" / "a.txt", (past, past))
    remote("sync", "down", "/site", "copy")
    assert (here / "copy" / "a.txt").stat().st_mtime == past
    assert last_line(remote("sync", "up", "copy", "/site")).startswith("0 uploaded, 2 skipped")
    assert last_line(remote("sync", "down", "/site", "copy")).startswith("0 downloaded, 2 skipped")


# The options of `sync up` that `sync down` has, too


def stored(gateway: Gateway, path: str, content: bytes, **headers: str) -> None:
    with gateway.signed_in() as client:
        named = {"X-Modified": "1700000000", **{name.replace("_", "-"): text for name, text in headers.items()}}
        client.put(f"/backend/1.0.0/filesystem{path}", content=content, headers=named).raise_for_status()


def test_down_without_times(remote: Portico, gateway: Gateway, here: Path) -> None:
    stored(gateway, "/d/a", b"1")
    remote("sync", "down", "/d", "with")
    assert (here / "with" / "a").stat().st_mtime == 1_700_000_000
    remote("sync", "down", "--no-times", "/d", "without")
    assert (here / "without" / "a").stat().st_mtime > 1_700_000_000
    assert "0 downloaded, 1 skipped" in remote("sync", "down", "--no-times", "/d", "without").err


def test_down_as_json(remote: Portico, gateway: Gateway, here: Path) -> None:
    stored(gateway, "/d/a", b"1")
    outcome = remote("sync", "down", "--json", "/d", "copy")
    assert outcome.code == 0, outcome.err
    line = outcome.data
    assert '"' not in line.pop("etag")
    assert line == {
        "path": "/d/a",
        "target": "copy/a",
        "size": 1,
        "lastModified": "2023-11-14T22:13:20.000Z",
        "digest": None,
        "verified": None,
        "resumed": None,
    }
    assert remote("sync", "down", "--json", "/d", "copy").out == ""


def test_down_verified(remote: Portico, gateway: Gateway, here: Path) -> None:
    large = os.urandom(17 * 2**20)
    stored(gateway, "/d/a", b"1", Want_Repr_Digest="sha-256=1")
    stored(gateway, "/d/large", large, Want_Repr_Digest="sha-256=1")
    stored(gateway, "/d/empty", b"")
    outcome = remote("sync", "down", "--verify", "--json", "/d", "copy")
    assert outcome.code == 0, outcome.err
    assert last_line(outcome).startswith("3 downloaded")
    assert "not verified" not in outcome.err
    lines = {line["path"]: line for line in map(json.loads, outcome.out.splitlines())}
    assert {path: line["verified"] for path, line in lines.items()} == dict.fromkeys(lines, True)
    assert lines["/d/large"]["digest"].startswith("sha-256=:")
    assert (here / "copy" / "large").read_bytes() == large
    stored(gateway, "/d/b", b"2")
    outcome = remote("sync", "down", "--verify", "--json", "/d", "copy")
    notice = "1 of the files were not verified, because the gateway has no digest for them."
    assert (outcome.code, outcome.err.splitlines()[0]) == (0, notice)
    assert outcome.data["verified"] is False


def test_down_of_what_is_not_what_was_recorded(
    remote: Portico, gateway: Gateway, proxy: FaultProxy, here: Path
) -> None:
    stored(gateway, "/d/a", b"right", Want_Repr_Digest="sha-256=1")
    sign_in(remote, gateway, proxy.port)
    proxy.on(lambda call: "DOWNLOAD" in call.target, Altered.body(lambda _: b"wrong"))
    outcome = remote("sync", "down", "--verify", "/d", "copy")
    assert outcome.code == 1
    assert outcome.err.splitlines()[0] == (
        "The SHA-256 of /d/a differs from the one recorded on the gateway. Download the file again."
    )
    assert os.listdir(here / "copy") == []
    assert remote("sync", "down", "--verify", "/d", "copy").code == 0
    assert (here / "copy" / "a").read_bytes() == b"right"


def test_unchanged_files_cost_no_calls_of_their_own(
    remote: Portico, gateway: Gateway, here: Path, proxy: FaultProxy
) -> None:
    sign_in(remote, gateway, proxy.port)
    files = {f"d__{folder}__{file}": "1" for folder in range(12) for file in range(5)}
    make(here, **files)
    for arguments, calls in (
        (("up", "d", "/d"), 9),  # a few folders one by one, then all that is left
        (("up", "d", "/d", "--delete"), 9),
        (("down", "/d", "copy"), 2),  # whether it is a folder, and all of it
        (("down", "/d", "copy", "--delete"), 2),
    ):
        assert remote("sync", *arguments).code == 0
        proxy.calls.clear()
        assert last_line(remote("sync", *arguments)).startswith(f"0 {arguments[0]}loaded, {len(files)} skipped")
        assert len([call for call in proxy.calls if "/filesystem" in call.target]) == calls


def test_a_very_large_tree_is_listed_folder_by_folder(
    remote: Portico, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RemoteTree.__init__, "__kwdefaults__", {"one_by_one": 0, "most": 3})
    make(there, d__a="1", d__b__c="2", d__b__d__e="3", d__f="4")
    assert last_line(remote("sync", "down", "/d", "copy")).startswith("4 downloaded")
    assert tree(here / "copy") == tree(there / "d")


def test_what_may_not_be_listed_is_not_taken_for_gone(
    remote: Portico, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(there, d__a="1", d__box__b="2")
    make(here, copy__box__b="2")
    content = RemoteTree.content
    monkeypatch.setattr(RemoteTree, "content", lambda *of: [entry for entry in content(*of) if entry.name != "box"])
    remote("sync", "down", "/d", "copy", "--delete")
    assert sorted(tree(here / "copy")) == ["a.txt", "box/b.txt"]
