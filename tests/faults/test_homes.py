"""A gateway's home, copied, moved, or with a part of it gone: what is used is what is shown."""

import json
import shutil
import sqlite3
from pathlib import Path

import httpx2

from ..gateways import FILES, Gateway, names, wait_until
from .conftest import Start


def stored_folder(home: Path) -> str:
    with sqlite3.connect(home / "portico.db") as database:
        (options,) = database.execute("SELECT options FROM connections WHERE name = 'local'").fetchone()
    database.close()
    folder: str = json.loads(options)["folder"]
    return folder


def store_folder(home: Path, folder: Path) -> None:
    """As a version did that knew absolute paths only."""
    with sqlite3.connect(home / "portico.db") as database:
        database.execute("UPDATE connections SET options = ?", (json.dumps({"folder": str(folder)}),))
    database.close()


def upload(gateway: Gateway, name: str) -> int:
    with gateway.signed_in() as client:
        return client.post(f"{FILES}/", files={"data": (name, b"content")}).status_code


def readiness(gateway: Gateway) -> httpx2.Response:
    with gateway.client() as client:
        return client.get("/readyz")


def test_a_copied_home_serves_its_own_folder(start: Start) -> None:
    original = start()
    assert upload(original, "original.txt") == 204
    original.stop()
    copy = start(copy_of=original.home)
    assert upload(copy, "copy.txt") == 204
    assert sorted(path.name for path in (copy.files / "web").iterdir()) == ["copy.txt", "original.txt"]
    assert [path.name for path in (original.files / "web").iterdir()] == ["original.txt"]
    assert str(copy.files) in copy.output
    assert str(original.home) not in copy.output
    assert "Warning" not in copy.output


def test_a_home_that_was_copied_before_paths_were_relative_says_whose_folder_it_uses(start: Start) -> None:
    original = start()
    original.stop()
    store_folder(original.home, original.files)
    copy = start(copy_of=original.home)
    assert f"Files     {original.files}\n" in copy.output
    assert f"belongs to another Portico home, {original.home}" in copy.output
    assert f"connection set local --option folder={copy.files}" in copy.output
    assert stored_folder(copy.home) == str(original.files)
    copy.command("connection", "set", "local", "--option", f"folder={copy.files}")
    assert stored_folder(copy.home) == "files"
    copy.stop()
    copy.start()
    assert "Warning" not in copy.output


def test_a_missing_folder_is_not_ready_and_not_made_anew(start: Start) -> None:
    gateway = start()
    wait_until(lambda: readiness(gateway).status_code == 200, "it is ready")
    gateway.stop()
    shutil.rmtree(gateway.files)
    gateway.start()
    assert f"The folder {gateway.files} of the connection local is missing." in gateway.output
    wait_until(lambda: "missing" in readiness(gateway).text, "the folder is missed")
    answer = readiness(gateway)
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.json()["faults"] == {"storage": "The folder of the connection 'local' is missing."}
    assert str(gateway.home) not in answer.text
    assert upload(gateway, "a.txt") == 503
    facts = json.loads(gateway.command("connection", "list", "--json"))
    assert "is missing" in facts["problem"]
    assert not gateway.files.exists()
    (gateway.files / "web").mkdir(parents=True)
    # It looks like a disk that is not mounted.
    wait_until(lambda: "volume id" in readiness(gateway).text, "the folder is noticed")
    assert upload(gateway, "a.txt") == 503
    facts = json.loads(gateway.command("connection", "list", "--json"))
    assert f"connection set local --option folder={gateway.files}" in facts["problem"]
    gateway.command("connection", "set", "local", "--option", f"folder={gateway.files}")
    wait_until(lambda: readiness(gateway).status_code == 200, "the administrator's word counts")
    with gateway.signed_in() as client:
        assert names(client) == []


def test_a_damaged_volume_id_is_not_ready(start: Start) -> None:
    gateway = start()
    assert upload(gateway, "a.txt") == 204
    file = gateway.files / ".portico~volume"
    file.rename(gateway.home / "kept")
    file.symlink_to(gateway.home / "kept")
    wait_until(lambda: "damaged volume id" in readiness(gateway).text, "the link is noticed")
    with gateway.signed_in() as client:
        for answer in (client.get(f"{FILES}/"), client.get(f"{FILES}/a.txt"), client.delete(f"{FILES}/a.txt")):
            assert (answer.status_code, answer.json()["code"]) == (503, "provider-unavailable")
    assert upload(gateway, "b.txt") == 503
    facts = json.loads(gateway.command("connection", "list", "--json"))
    assert "is a symbolic link" in facts["problem"]
    file.unlink()
    (gateway.home / "kept").rename(file)
    wait_until(lambda: readiness(gateway).status_code == 200, "it is ready again")
    with gateway.signed_in() as client:
        assert names(client) == ["a.txt"]


def test_a_file_in_place_of_the_folder_is_not_ready(start: Start) -> None:
    gateway = start()
    gateway.stop()
    shutil.rmtree(gateway.files)
    gateway.files.write_text("kept")
    gateway.start()
    assert "is a file, not a folder" in gateway.output
    assert readiness(gateway).status_code == 503
    assert "is a file, not a folder" in gateway.command("connection", "show", "local")
    assert gateway.files.read_text() == "kept"


def test_one_missing_folder_of_several_takes_nobody_else_down(start: Start, tmp_path: Path) -> None:
    gateway = start()
    folder = tmp_path / "archive"
    folder.mkdir()
    gateway.command("connection", "add", "archive", "--kind", "local", "--option", f"folder={folder}")
    gateway.command("user", "add", "ann", "--connection", "archive", "--password-stdin", stdin="correct horse")
    shutil.rmtree(folder)
    wait_until(lambda: readiness(gateway).status_code == 200, "it is ready")
    assert upload(gateway, "a.txt") == 204
