"""Listings, changes of the tree, errors, and who is signed in how."""

import json
import multiprocessing
import os
import pickle
import threading
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
import pytest

from portico.client import ClientError, NotFound
from portico.client.http.effects import Request, Response
from portico.client.http.sync_pool import SyncPool
from portico.filesystem import PorticoFileSystem, errors
from portico.filesystem.options import Options

from ..gateways import Gateway


def test_metadata_of_files_and_folders(fs: PorticoFileSystem, root: Path) -> None:
    (root / "folder").mkdir()
    (root / "folder/file.csv").write_bytes(b"1,2\n")
    os.utime(root / "folder/file.csv", (1e9, 1e9))
    folder, file = fs.info("/folder"), fs.info("portico:///folder/file.csv")
    assert (folder["name"], folder["type"], folder["size"]) == ("/folder", "directory", 0)
    assert file == {"name": "/folder/file.csv", "size": 4, "type": "file", "content_type": "text/csv", "mtime": 1e9}
    assert fs.ls("/folder") == [file]
    assert fs.ls("/folder/file.csv") == [file]
    assert fs.modified("/folder/file.csv") == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    assert fs.isdir("/")
    assert fs.ls("", detail=False) == ["/folder"]
    assert fs.glob("/*/*.csv") == ["/folder/file.csv"]
    assert fs.unstrip_protocol("/folder") == "portico:///folder"


def test_the_key_of_a_file_is_that_of_its_version(fs: PorticoFileSystem, root: Path) -> None:
    fs.pipe_file("/file", b"one")
    first = fs.ukey("/file")
    assert fs.ukey("/file") == first
    fs.pipe_file("/file", b"two")
    assert fs.ukey("/file") != first


def test_an_address_with_two_slashes_is_refused(fs: PorticoFileSystem) -> None:
    with pytest.raises(ValueError, match=r"portico:///reports/2026\.csv with three"):
        fs.exists("portico://reports/2026.csv")


def test_listings_are_cached_for_a_moment(root: Path, options: dict[str, Any]) -> None:
    (root / "a").touch()
    fs = PorticoFileSystem(**options, skip_instance_cache=True)
    fresh = PorticoFileSystem(**options, use_listings_cache=False)
    brief = PorticoFileSystem(**options, listings_expiry_time=0.0)
    for one in (fs, fresh, brief):
        assert one.ls("/", detail=False) == ["/a"]
        assert one.info("/a")["size"] == 0
    (root / "b").touch()
    assert fs.ls("/", detail=False) == ["/a"]
    assert fs.exists("/b")  # that something is missing is not taken from a listing
    assert fresh.ls("/", detail=False) == brief.ls("/", detail=False) == ["/a", "/b"]
    assert fs.ls("/", detail=False, refresh=True) == ["/a", "/b"]


def test_changes_of_ones_own_are_seen_at_once(fs: PorticoFileSystem, root: Path) -> None:
    def names(path: str) -> list[str]:
        return [name.rpartition("/")[2] for name in fs.find(path, withdirs=True)]

    assert fs.ls("/") == []
    fs.pipe_file("/a/b/one", b"1")
    assert names("/a") == ["a", "b", "one"]
    fs.mv("/a/b", "/a/c", recursive=True)
    assert names("/a") == ["a", "c", "one"]
    fs.cp_file("/a/c/one", "/a/two")
    assert names("/a") == ["a", "c", "one", "two"]
    fs.rm("/a/c", recursive=True)
    assert names("/a") == ["a", "two"]
    assert not fs.exists("/a/c/one")
    fs.makedirs("/a/d/e")
    assert fs.isdir("/a/d")
    fs.rmdir("/a/d/e")
    assert not fs.exists("/a/d/e")


def test_everything_below_a_folder_is_found_by_one_request(
    fs: PorticoFileSystem, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a/b/c", "a/d", "e"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"12")
    requests = []
    exchange = SyncPool.exchange

    def counted(pool: SyncPool, request: Request, *arguments: Any) -> Response:
        requests.append(request)
        return exchange(pool, request, *arguments)

    fs.ls("/")  # signs in
    monkeypatch.setattr(SyncPool, "exchange", counted)
    assert fs.find("/") == ["/a/b/c", "/a/d", "/e"]
    assert [fs.info(path)["size"] for path in ("/a/b/c", "/e")] == [2, 2]
    assert fs.ls("/a/b", detail=False) == ["/a/b/c"]
    assert len(requests) == 1
    assert fs.find("/a", withdirs=True) == ["/a", "/a/b", "/a/b/c", "/a/d"]
    assert fs.find("/a", maxdepth=1) == ["/a/d"]
    assert fs.find("/e") == ["/e"]
    assert fs.find("/missing") == []
    assert fs.du("/") == 6
    assert fs.glob("/**/c") == ["/a/b/c"]


def test_moves(fs: PorticoFileSystem, root: Path) -> None:
    fs.pipe({"/one": b"1", "/folder/two": b"2", "/other/x": b"x"})
    fs.mv("/one", "/uno")
    fs.mv("/uno", "/folder")  # which takes it in
    fs.mv("/folder", "/other/", recursive=True)
    fs.mv("/other/folder/*", "/flat/")
    fs.mv("/flat", "/flat")
    fs.mv("/other/x", PurePosixPath("/other/y"))
    fs.mv(PurePosixPath("/other/y"), "/other/x")
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert found == {"other/x", "flat/uno", "flat/two"}
    with pytest.raises(FileNotFoundError):
        fs.mv("/missing", "/there")


def test_removals(fs: PorticoFileSystem, root: Path) -> None:
    fs.pipe({"/a/one": b"1", "/a/two": b"2", "/b/x": b"x", "/c": b"c"})
    with pytest.raises(OSError, match="Errno 39"):
        fs.rmdir("/a")
    with pytest.raises(OSError, match="Errno 39"):
        fs.rm("/a")
    with pytest.raises(NotADirectoryError):
        fs.rmdir("/c")
    fs.rm("/a/t*")
    fs.rm(["/b", "/c"], recursive=True)
    assert fs.find("/") == ["/a/one"]
    with pytest.raises(FileNotFoundError):
        fs.rm_file("/c")


def test_errors_are_those_of_files(fs: PorticoFileSystem, root: Path) -> None:
    fs.pipe_file("/folder/file", b"1")
    with pytest.raises(FileNotFoundError, match="/missing") as caught:
        fs.open("/missing")
    assert isinstance(caught.value.__cause__, NotFound)
    with pytest.raises(FileNotFoundError):
        fs.ls("/missing")
    with pytest.raises(IsADirectoryError):
        fs.open("/folder")
    with pytest.raises(IsADirectoryError):
        fs.cat_file("/folder")
    with pytest.raises(FileExistsError):
        fs.mkdir("/folder")
    with pytest.raises(FileExistsError):
        fs.makedirs("/folder")
    with pytest.raises(FileNotFoundError):
        fs.mkdir("/none/inner", create_parents=False)
    with pytest.raises(OSError, match="not a valid name"):
        fs.info("/a\\b")
    assert not fs.exists("/folder/file/below")


def test_every_error_of_the_client_has_a_number() -> None:
    kinds = list(ClientError.__subclasses__())
    for kind in kinds:
        kinds += kind.__subclasses__()
    assert len(kinds) > 30
    for kind in kinds:
        if kind.__init__ is ClientError.__init__:
            with pytest.raises(OSError, match="said so") as caught, errors.translate_errors("/p"):
                raise kind("The gateway said so.")
            assert caught.value.filename == "/p"


def test_a_refused_sign_in_is_no_empty_folder(options: dict[str, Any]) -> None:
    fs = PorticoFileSystem(**{**options, "password": "wrong"})
    for look in (fs.exists, fs.isdir, fs.isfile, fs.find, fs.ls, fs.glob, fs.open):
        with pytest.raises(PermissionError):
            look("/x*" if look == fs.glob else "/x")
    with pytest.raises(PermissionError):
        list(fs.walk("/x"))


def test_nobody_at_home_is_no_empty_folder() -> None:
    fs = PorticoFileSystem("http://127.0.0.1:9", token="t", timeout=1.0)
    fs.client._session._attempts = 1
    with pytest.raises(ConnectionError):
        fs.find("/")


def test_options_and_environment(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTICO_URL", gateway.url)
    monkeypatch.setenv("PORTICO_TOKEN", gateway.login()["access_token"])
    fs = fsspec.filesystem("portico")
    assert fs.isdir("/")
    fs.clear_instance_cache()
    monkeypatch.delenv("PORTICO_URL")
    with pytest.raises(ValueError, match="PORTICO_URL"):
        fsspec.filesystem("portico")
    with pytest.raises(TypeError, match="user_name"):
        PorticoFileSystem(gateway.url, user_name="web")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("https://a", "secret", None, None)),
        ({"url": "https://a"}, ("https://a", "secret", None, None)),
        ({"url": "a/"}, ("a/", "secret", None, None)),
        ({"url": "http://a"}, ("http://a", None, None, None)),
        ({"url": "https://b"}, ("https://b", None, None, None)),
        ({"username": "u", "password": "p"}, ("https://a", None, "u", "p")),
    ],
)
def test_a_token_goes_to_the_gateway_that_it_is_of(given: dict[str, Any], expected: tuple[str | None, ...]) -> None:
    environment = {"PORTICO_URL": "https://a", "PORTICO_TOKEN": "secret"}
    found = Options(**{"url": "", **given}).completed(environment)
    assert (found.url, found.token, found.username, found.password) == expected


def test_secrets_stay_where_they_are_needed(options: dict[str, Any]) -> None:
    secrets = {"password": "canary-p", "token": "canary-t", "client_secret": "canary-s"}
    fs = PorticoFileSystem(**{**options, **secrets})
    for reported in (
        repr(fs),
        str(fs),
        repr(fs._connection_options),
        fs.fsid,
        repr(fs.__dask_tokenize__()),
        repr(fs.client),
    ):
        assert "canary" not in reported
    other = PorticoFileSystem(**{**options, **secrets, "token": "canary-u"})
    assert other.__dask_tokenize__() != fs.__dask_tokenize__()
    assert other.client is not fs.client
    reported = fs.to_json(include_password=False)
    assert "canary" not in reported
    assert json.loads(reported)["username"] == "web"
    assert (
        pickle.loads(pickle.dumps(fs))._connection_options == fs._connection_options
    )  # a worker could not sign in without


def test_threads_share_one_sign_in(options: dict[str, Any], fs: PorticoFileSystem) -> None:
    others: list[PorticoFileSystem] = []
    thread = threading.Thread(target=lambda: others.append(fsspec.filesystem("portico", **options)))
    thread.start()
    thread.join()
    assert others[0] is not fs
    assert others[0].client is fs.client


def _look(fs: PorticoFileSystem, answers: Any) -> None:
    answers.put((fs.isdir("/"), id(fs.client)))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_get_connections_of_their_own(fs: PorticoFileSystem, method: str) -> None:
    assert fs.isdir("/")
    before = id(fs.client)
    context: Any = multiprocessing.get_context(method)
    answers = context.Queue()
    process = context.Process(target=_look, args=(fs, answers))
    process.start()
    found, client = answers.get(timeout=60)
    process.join(60)
    assert found
    assert method == "spawn" or client != before
    assert fs.ls("/", refresh=True) is not None  # ours still works
