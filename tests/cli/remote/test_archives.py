import io
import zipfile
from pathlib import Path

import pytest

from ..conftest import Portico
from .conftest import Start, make


@pytest.fixture
def files(there: Path) -> None:
    make(there, a="one", reports__2025="x", reports__2026="y", reports__old__1999="z")


def names(file: Path) -> list[str]:
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        return sorted(archive.namelist())


WHOLE = ["reports/", "reports/2025.txt", "reports/2026.txt", "reports/old/", "reports/old/1999.txt"]


@pytest.mark.usefixtures("files")
def test_a_folder_by_any_target(remote: Portico, here: Path) -> None:
    assert "Downloaded reports.zip" in remote("get", "--zip", "/reports").err
    remote("get", "--zip", "/reports", "mine.zip")
    remote("get", "--zip", "/reports/", "new/")
    for file in ("reports.zip", "mine.zip", "new/reports.zip"):
        assert names(here / file) == WHOLE
    remote("get", "--zip", "/")
    assert names(here / "files.zip") == ["a.txt", *WHOLE]
    assert sorted(file.name for file in here.iterdir()) == ["files.zip", "mine.zip", "new", "reports.zip"]


@pytest.mark.usefixtures("files")
def test_several_sources_count_from_the_folder_that_holds_them(remote: Portico, here: Path) -> None:
    remote("get", "--zip", "/reports/old", "/reports/2025.txt", "some.zip")
    assert names(here / "some.zip") == ["2025.txt", "old/", "old/1999.txt"]
    remote("get", "--zip", "/reports/20*", "/a.txt", "all.zip")
    assert names(here / "all.zip") == ["a.txt", "reports/2025.txt", "reports/2026.txt"]


@pytest.mark.usefixtures("files")
def test_standard_output(process: Start) -> None:
    content, _ = process("get", "--zip", "/reports", "-").communicate()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert len(archive.namelist()) == len(WHOLE)


@pytest.mark.usefixtures("files")
def test_what_is_kept_and_what_is_missing(remote: Portico, here: Path) -> None:
    (here / "reports.zip").write_text("mine")
    assert "exists" in remote("get", "--zip", "-n", "/reports").err
    assert (here / "reports.zip").read_text() == "mine"
    result = remote("get", "--zip", "/gone", "gone.zip")
    assert result.code != 0
    assert "/gone" in result.err
    assert remote("get", "--zip", "--dry-run", "/reports", "x.zip").out == "download /reports to x.zip\n"
    assert [file.name for file in here.iterdir()] == ["reports.zip"]
