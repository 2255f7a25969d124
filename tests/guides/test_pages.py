"""The examples of docs/fsspec.md and docs/migration.md run as written."""

import subprocess
from pathlib import Path

import fsspec
import pytest

from portico.filesystem import PorticoFileSystem

from .conftest import Guide


def test_migration(guide: Guide, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "2026.csv").write_text("1;2;3\n")
    (root / "reports").mkdir()
    for number in range(250):
        (root / "reports" / f"{number}.csv").touch()

    [script] = guide.examples("migration.md", "sh")
    done = subprocess.run(["sh", "-eu", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"nextCursor"' in done.stdout
    assert (root / "reports" / "2026.csv").read_text() == "1;2;3\n"

    names: dict[str, object] = {"__name__": "example"}
    for example in guide.examples("migration.md", "python"):
        (root / "reports" / "2026.csv").unlink()
        exec(compile(example, "migration.md", "exec"), names)
        assert (root / "reports" / "2026.csv").read_text() == "1;2;3\n"
    assert names["before"] == names["after"]
    assert names["after"] == sorted([*(f"{number}.csv" for number in range(250)), "2026.csv"])


def test_fsspec(guide: Guide, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fsspec.register_implementation("portico", PorticoFileSystem, clobber=True)
    (tmp_path / "local-folder").mkdir()
    (tmp_path / "local-folder" / "cat.jpg").write_bytes(b"cat")
    names: dict[str, object] = {"__name__": "example"}
    for example in guide.examples("fsspec.md", "python"):
        exec(compile(example, "fsspec.md", "exec"), names)
    assert names["found"] == [(550,)]
    assert (tmp_path / "copy" / "cat.jpg").read_bytes() == b"cat"
    stored = ["2026.csv", "2026.parquet", "old-notes.txt", "one.txt", "two.txt"]
    assert sorted(path.name for path in (root / "reports").iterdir()) == stored


def test_listings_as_postman_asks_for_them(guide: Guide, root: Path) -> None:
    headers = {"Content-Type": "application/json", "Accept": "*/*", "Cache-Control": "no-cache"}
    with guide.gateway.signed_in(headers=headers) as client:
        assert client.get("/backend/1.0.0/filesystem/?action=LIST&size=10").status_code == 200
        assert client.get("/backend/1.0.0/filesystem/?action=LIST&size=10&cursor=").status_code == 400
