import os
import shutil
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from portico.cli.administration.home import prepare
from portico.model.errors import PorticoError, ProviderRefused, ProviderUnavailable
from portico.providers.contract import registry
from portico.providers.contract import registry as probe
from portico.providers.contract.registry import KINDS, Kind
from portico.providers.folders import volume_id

from .conftest import Portico

CANARY = "canary-3141592653"


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind with secrets, whether or not one is built in yet."""
    known = Kind(
        "portico.providers.none:None",
        required=frozenset({"bucket"}),
        optional=frozenset({"region", "prefix", "account-key", "secret-access-key"}),
    )
    monkeypatch.setattr(registry, "KINDS", {**registry.KINDS, "cloud": known})


@pytest.fixture
def cloud(anna: Portico, kinds: None) -> Portico:
    arguments = ("--kind", "cloud", "--option", "bucket=b", "--option", "region=eu", "--secret-stdin")
    outcome = anna("connection", "add", "cloud", *arguments, stdin=f"secret-access-key={CANARY}==\n\n")
    assert (outcome.code, outcome.err) == (0, "")
    return anna


def show(portico: Portico, name: str = "cloud") -> Mapping[str, object]:
    data: Mapping[str, object] = portico("connection", "show", name, "--json").data
    return data


def test_secrets_are_kept_and_never_shown(cloud: Portico, home: Path) -> None:
    assert show(cloud) == {
        "name": "cloud",
        "kind": "cloud",
        "options": {"bucket": "b", "region": "eu"},
        "secrets": {"secret-access-key": "set"},
        "problem": None,
    }
    shown = cloud("connection", "show", "cloud").out + cloud("connection", "list").out
    assert "secret-access-key=set" in shown
    assert CANARY not in shown + cloud("connection", "list", "--json").out
    assert not any(CANARY.encode() in file.read_bytes() for file in home.iterdir() if file.is_file())


def test_a_secret_in_the_command_works_with_a_warning(anna: Portico, kinds: None) -> None:
    arguments = ("--kind", "cloud", "--option", "bucket=b", "--option", f"account-key={CANARY}")
    outcome = anna("connection", "add", "cloud", *arguments)
    assert outcome.code == 0
    assert "--secret-stdin" in outcome.err
    assert CANARY not in outcome.err + outcome.out
    assert show(anna)["secrets"] == {"account-key": "set"}


def test_set_merges_and_removes(cloud: Portico) -> None:
    assert cloud("connection", "set", "cloud", "--option", "region=", "--option", "prefix=a/b").code == 0
    assert show(cloud)["options"] == {"bucket": "b", "prefix": "a/b"}
    assert cloud("connection", "set", "cloud", "--secret-stdin", stdin="account-key=x\nsecret-access-key=\n").code == 0
    assert show(cloud)["secrets"] == {"account-key": "set"}


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        (("set", "cloud"), "", 2),
        (("set", "cloud", "--option", "bucket="), "", 2),
        (("set", "cloud", "--option", "buckte=c"), "", 2),
        (("set", "cloud", "--kind", "local", "--option", "bucket=c"), "", 1),
        (("set", "none", "--option", "bucket=c"), "", 1),
        (("add", "cloud", "--kind", "cloud", "--option", "bucket=b"), "", 1),
        (("add", "x", "--kind", "cloud"), "", 2),
        (("add", "x", "--kind", "clod", "--option", "bucket=b"), "", 2),
        (("add", "x"), "", 2),
        (("add", "x", "--kind", "cloud", "--option", "bucket"), "", 2),
        (("add", "x", "--kind", "cloud", "--option", "=b"), "", 2),
        (("add", "x", "--kind", "cloud", "--option", "bucket=a", "--option", "bucket=b"), "", 2),
        (("add", "x", "--kind", "cloud", "--option", "bucket=a", "--secret-stdin"), "bucket=b", 2),
        (("add", "x", "--kind", "cloud", "--option", "bucket=a", "--secret-stdin"), CANARY, 2),
        (("show", "none"), "", 1),
        (("test", "none"), "", 1),
        (("delete", "none"), "", 1),
    ],
)
def test_refusals_are_one_sentence(cloud: Portico, arguments: Sequence[str], stdin: str, code: int) -> None:
    outcome = cloud("connection", *arguments, stdin=stdin)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1)
    assert CANARY not in outcome.err


def test_a_relative_folder_is_meant_from_here(anna: Portico, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert anna("connection", "add", "here", "--kind", "local", "--option", "folder=data").code == 0
    assert show(anna, "here")["options"] == {"folder": str(tmp_path / "data")}


def test_a_folder_gets_a_volume_id_that_nobody_has_to_know(anna: Portico, tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    assert anna("connection", "add", "share", "--kind", "local", "--option", f"folder={folders[0]}").code == 0
    first = (folders[0] / ".portico~volume").read_text().strip()
    assert anna("connection", "set", "share", "--option", f"folder={folders[1]}").code == 0
    second = (folders[1] / ".portico~volume").read_text().strip()
    assert first != second
    assert show(anna, "share")["options"] == {"folder": str(folders[1])}
    assert second not in anna("connection", "list").out + anna("connection", "show", "share").out
    assert anna("connection", "test", "share").code == 0

    (folders[1] / ".portico~volume").write_text(first)
    assert "a different volume id" in str(show(anna, "share")["problem"])
    (folders[1] / ".portico~volume").unlink()
    problem = str(show(anna, "share")["problem"])
    assert "probably not mounted" in problem
    assert f"connection set share --option folder={folders[1]}" in problem
    assert anna("connection", "test", "share").code == 5
    assert not (folders[1] / ".portico~volume").exists()
    assert anna("connection", "set", "share", "--option", f"folder={folders[1]}").code == 0
    assert show(anna, "share")["problem"] is None


@pytest.mark.parametrize("content", [b"a\0b", b"\xff" * 32, b""])
def test_a_damaged_volume_id_is_refused(anna: Portico, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "share" / ".portico~volume"
    file.parent.mkdir()
    file.write_bytes(content)
    arguments = ("--option", f"folder={file.parent}")
    outcome = anna("connection", "add", "share", "--kind", "local", *arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert "damaged volume id" in outcome.err
    assert anna("connection", "show", "share").code != 0
    file.unlink()
    assert anna("connection", "add", "share", "--kind", "local", *arguments).code == 0

    file.write_bytes(content)
    assert "damaged volume id" in str(show(anna, "share")["problem"])
    assert "damaged volume id" in anna("connection", "list").out
    assert "damaged volume id" in anna("connection", "set", "share", *arguments).err
    assert anna("connection", "test", "share").code == 5
    file.unlink()
    assert anna("connection", "set", "share", *arguments).code == 0
    assert show(anna, "share")["problem"] is None


def test_delete(cloud: Portico) -> None:
    assert cloud("connection", "delete", "cloud").code == 0
    assert [row["name"] for row in cloud("connection", "list", "--json").lines] == ["local"]


def test_a_connection_in_use_is_not_deleted(anna: Portico) -> None:
    outcome = anna("connection", "delete", "local")
    assert outcome.code == 1
    assert "anna" in outcome.err


def test_the_embedded_connection_passes_its_test(anna: Portico, home: Path) -> None:
    outcome = anna("connection", "test", "local")
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        "list: ok",
        "write: ok",
        "read: ok",
        "delete: ok",
        "The connection local works.",
    ]
    assert not [file for file in (home / "files").rglob("*") if file.is_file()]


@pytest.mark.parametrize(
    ("error", "code"), [(ProviderRefused("No write permission."), 1), (ProviderUnavailable("It is down."), 5)]
)
def test_a_failing_test(anna: Portico, monkeypatch: pytest.MonkeyPatch, error: PorticoError, code: int) -> None:
    async def steps(*_: object) -> AsyncIterator[probe.ProbeStep]:
        yield probe.ProbeStep("list")
        yield probe.ProbeStep("write", error)

    monkeypatch.setattr(probe, "probe", steps)
    outcome = anna("connection", "test", "local")
    assert outcome.code == code
    assert outcome.out.splitlines() == ["list: ok", f"write: {error.detail}"]
    assert outcome.err.count("\n") == 1


def test_a_kind_whose_extra_is_missing_is_added_with_a_warning(anna: Portico, monkeypatch: pytest.MonkeyPatch) -> None:
    for sdk in ("not_installed", "not_installed.either"):
        known = Kind("portico.providers.none:None", required=frozenset({"bucket"}), extra="s3", sdk=sdk)
        monkeypatch.setattr(registry, "KINDS", {**registry.KINDS, "cloud": known})
        outcome = anna(
            "connection", "add", sdk.replace("_", "-").replace(".", "-"), "--kind", "cloud", "--option", "bucket=b"
        )
        assert outcome.code == 0
        assert "pip install 'portico-gateway[s3]'" in outcome.err
    assert all(registry.missing_extra(kind) is None for kind in KINDS)


@pytest.mark.parametrize("prefix", ["a/../b", "a//b", "a\\b"])
def test_a_prefix_that_is_no_path_is_refused_at_once(anna: Portico, kinds: None, prefix: str) -> None:
    arguments = ("--kind", "cloud", "--option", "bucket=b", "--option", f"prefix={prefix}")
    outcome = anna("connection", "add", "cloud", *arguments)
    assert outcome.code != 0
    assert "'prefix'" in outcome.err
    assert anna("connection", "show", "cloud").code != 0


def test_a_folder_that_cannot_serve_or_should_not_is_added_with_a_warning(
    anna: Portico, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "other").mkdir()
    warnings = {
        "missing": "is missing. Create it, or correct the path.",
        "file": "is a file, not a folder",
        str(home): "contains the gateway's own home",
        str(home.parent): "contains the gateway's own home",
        "other": "",
    }
    for number, (folder, warning) in enumerate(warnings.items()):
        option = f"folder={tmp_path / folder}"
        outcome = anna("connection", "add", f"local-{number}", "--kind", "local", "--option", option)
        assert outcome.code == 0
        assert warning in outcome.err
        assert bool(warning) == bool(outcome.err)
        again = anna("connection", "set", f"local-{number}", "--option", option)
        assert (again.code, again.err) == (0, outcome.err)


def test_a_folder_of_another_home_is_added_with_a_warning(anna: Portico, home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(prepare(tmp_path / "first").home, other)
    (other / "portico.db").touch()
    (other / "files" / "deep").mkdir(parents=True)
    for number, folder in enumerate((other / "files", other / "files" / "deep", other)):
        arguments = ("connection", "add", f"c{number}", "--kind", "local", "--option", f"folder={folder}")
        assert f"belongs to another Portico home, {other}." in anna(*arguments).err
    (tmp_path / "java").mkdir()
    (tmp_path / "java" / "application.properties").touch()
    option = f"folder={tmp_path / 'java'}"
    assert anna("connection", "add", "java", "--kind", "local", "--option", option).err == ""


def test_a_folder_is_expected_to_be_writable_only_where_somebody_may_upload(
    anna: Portico, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    option = f"folder={tmp_path / 'archive'}"
    (tmp_path / "archive").mkdir()
    anna("connection", "add", "archive", "--kind", "local", "--option", option)
    monkeypatch.setattr(volume_id, "_has_access", lambda _, access: not access & os.W_OK)
    arguments = ("user", "add", "reader", "--connection", "archive", "--generate")
    assert anna(*arguments, "--rights", "list,download").code == 0
    assert show(anna, "archive")["problem"] is None
    anna("user", "set", "reader", "--rights", "list,upload")
    assert "can't be written" in str(show(anna, "archive")["problem"])
    assert "can't be written" in anna("connection", "list").out


def test_the_list_has_a_status(portico: Portico, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    portico("connection", "add", "archive", "--kind", "local", "--option", f"folder={folder}")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        endpoint = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    portico(
        *("connection", "add", "cloud", "--kind", "gcs", "--option", "bucket=b"),
        *("--option", f"endpoint-url={endpoint}", "--option", "anonymous=true"),
    )

    def statuses(*flags: str) -> dict[str, str]:
        return {row["name"]: row["status"] for row in portico("connection", "list", "--json", *flags).lines}

    assert statuses() == {"archive": "ok", "cloud": "not checked", "local": "ok"}
    shutil.rmtree(folder)
    portico("config", "check")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PORTICO_PROVIDER_TIMEOUT", "1s")
        assert statuses("--check") == {"archive": "problem", "cloud": "problem", "local": "ok"}
