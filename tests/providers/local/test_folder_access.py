"""What is said about a folder that cannot be used. (Root may write everywhere: permissions are injected.)"""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from portico.model.errors import ProviderUnavailable
from portico.providers.folders import volume_id
from portico.providers.local.provider import LocalProvider


def refuse(monkeypatch: pytest.MonkeyPatch, *, access: int, below: str = "") -> None:
    monkeypatch.setattr(volume_id, "_has_access", lambda path, wanted: not (wanted & access and path.endswith(below)))


def test_a_folder_that_is_fine(tmp_path: Path) -> None:
    (tmp_path / ".portico~staging").mkdir()
    assert volume_id.access_problem(str(tmp_path), writable=True) is None


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert volume_id.access_problem(str(tmp_path / "none"), writable=False) == "is missing"
    assert volume_id.access_problem(str(tmp_path / "file" / "below"), writable=False) == "is missing"
    assert volume_id.access_problem(str(tmp_path / "file"), writable=False) == "is a file, not a folder"
    (tmp_path / "loop").symlink_to("loop")
    assert "can't be reached" in (volume_id.access_problem(str(tmp_path / "loop"), writable=False) or "")


def test_a_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, access=os.W_OK)
    assert volume_id.access_problem(str(tmp_path), writable=False) is None
    assert "can't be written by the user" in (volume_id.access_problem(str(tmp_path), writable=True) or "")
    refuse(monkeypatch, access=os.R_OK)
    assert "can't be read by the user" in (volume_id.access_problem(str(tmp_path), writable=False) or "")


def test_a_staging_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".portico~staging").mkdir()
    refuse(monkeypatch, access=os.W_OK, below="staging")
    assert ".portico~staging in it can't be" in (volume_id.access_problem(str(tmp_path), writable=True) or "")


def test_a_read_only_file_system_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, access=os.W_OK)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert "file system is read-only" in (volume_id.access_problem(str(tmp_path), writable=True) or "")


async def test_the_provider_says_what_is_wrong_with_its_folder(tmp_path: Path) -> None:
    provider = LocalProvider(str(tmp_path / "none"))
    with pytest.raises(ProviderUnavailable) as failure:
        await provider.check(writable=False)
    assert str(tmp_path) not in failure.value.detail
    assert (failure.value.cause or "").endswith("none is missing")
    assert not (tmp_path / "none").exists()
    (tmp_path / "none").mkdir()
    await provider.check(writable=True)
    await provider.close()
