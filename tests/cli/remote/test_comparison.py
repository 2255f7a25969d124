"""Which files are skipped: a changed file is transferred, whatever its time."""

import os
import shutil
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from portico.cli.remote import transfer_record
from portico.cli.remote.comparison import Comparison
from portico.cli.remote.connect import connect
from portico.cli.remote.transfer_record import Pair, TransferRecord
from portico.client.entries import Entry
from portico.client.transfers.content_comparer import Candidate
from portico.client.transfers.progress import Receipt

from ...gateways import Gateway
from ..conftest import Portico
from .conftest import last_line, make, tree

OLD = 1_600_000_000
"""Long before `make` makes its files."""


def copied(folder: Path, name: str, content: str, moment: int) -> None:
    """As `cp -p` replaces a file by one of its own time."""
    backup = folder.parent / "backup.txt"
    backup.write_text(content)
    os.utime(backup, (moment, moment))
    shutil.copy2(backup, folder / name)


def renamed(folder: Path, name: str, content: str, moment: int) -> None:
    """As `mv` puts an old version back."""
    backup = folder.parent / "backup.txt"
    backup.write_text(content)
    os.utime(backup, (moment, moment))
    os.replace(backup, folder / name)


def unpacked(folder: Path, name: str, content: str, moment: int) -> None:
    """As `tar x` does it."""
    archive = folder.parent / "archive.tar"
    renamed(folder.parent, name, content, moment)
    with tarfile.open(archive, "w") as tar:
        tar.add(folder.parent / name, name)
    os.unlink(folder.parent / name)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


def written(folder: Path, name: str, content: str, moment: int) -> None:
    """As a program does it that sets the time back."""
    (folder / name).write_text(content)
    os.utime(folder / name, (moment, moment))


Replace = Callable[[Path, str, str, int], None]
WAYS = [copied, renamed, unpacked, written]
UP = [("put", "-r", "d/.", "/d"), ("sync", "up", "d", "/d"), ("put", "d/a.txt", "d/b.txt", "d/c.txt", "/d/")]
DOWN = [("get", "-r", "/d", "."), ("sync", "down", "/d", "d"), ("get", "/d/a.txt", "/d/b.txt", "/d/c.txt", "d")]


@pytest.fixture(params=[True, False], ids=["recorded", "forgotten"])
def forget(request: pytest.FixtureRequest, config: Path, tmp_path: Path) -> Callable[[], None]:
    """Lose the record, or not."""
    return lambda: None if request.param else shutil.rmtree(tmp_path / "state", ignore_errors=True)


@pytest.mark.parametrize("replace", WAYS)
@pytest.mark.parametrize("words", UP)
@pytest.mark.parametrize("moment", [OLD, 1_700_000_000, 4_000_000_000])
def test_a_changed_file_of_the_same_size_goes_up(
    remote: Portico,
    here: Path,
    there: Path,
    forget: Callable[[], None],
    replace: Replace,
    words: tuple[str, ...],
    moment: int,
) -> None:
    make(here, d__a="one", d__b="two", d__c="six")
    assert last_line(remote(*words)).startswith("3 uploaded")
    assert last_line(remote(*words)).startswith("0 uploaded, 3 skipped")
    forget()
    replace(here / "d", "b.txt", "new", moment)
    assert remote(*words).code == 0
    assert tree(there / "d") == {"a.txt": "one", "b.txt": "new", "c.txt": "six"}
    assert last_line(remote(*words)).startswith("0 uploaded, 3 skipped")


@pytest.mark.parametrize("words", DOWN)
@pytest.mark.parametrize("moment", [OLD, 4_000_000_000])
def test_a_file_of_the_same_size_that_was_restored_there_comes_down(
    remote: Portico, here: Path, there: Path, forget: Callable[[], None], words: tuple[str, ...], moment: int
) -> None:
    make(there, d__a="one", d__b="two", d__c="six")
    assert last_line(remote(*words)).startswith("3 downloaded")
    forget()
    assert last_line(remote(*words)).startswith("0 downloaded, 3 skipped")
    renamed(there / "d", "b.txt", "new", moment)  # in place, it might show a second later: docs/local.md
    assert last_line(remote(*words)).startswith("1 downloaded, 2 skipped")
    assert tree(here / "d") == {"a.txt": "one", "b.txt": "new", "c.txt": "six"}
    assert last_line(remote(*words)).startswith("0 downloaded, 3 skipped")


def test_what_was_replaced_there_goes_up_again(remote: Portico, here: Path, there: Path) -> None:
    make(here, d__a="one")
    remote("put", "-r", "d", "/")
    renamed(there / "d", "a.txt", "two", OLD)
    assert last_line(remote("put", "-r", "d", "/")).startswith("1 uploaded")
    assert tree(there) == {"d/a.txt": "one"}


def test_a_file_changed_here_is_fetched_again(remote: Portico, here: Path, there: Path) -> None:
    make(there, a="one")
    remote("get", "/a.txt")
    (here / "a.txt").write_text("two")
    assert last_line(remote("get", "-n", "/a.txt")).startswith("0 downloaded, 1 skipped")
    assert last_line(remote("get", "/a.txt")).startswith("1 downloaded")
    assert tree(here) == {"a.txt": "one"}


def test_another_local_file_is_not_taken_for_the_one_that_was_sent(remote: Portico, here: Path, there: Path) -> None:
    make(here, v1__a="one", v2__a="two")
    remote("put", "v1/a.txt", "/")
    remote("put", "v2/a.txt", "/")
    assert tree(there) == {"a.txt": "two"}


def test_folders_that_change_places(remote: Portico, here: Path, there: Path) -> None:
    """Neither the times of the files nor those of their last change are touched by that."""
    make(here, d__a="one", e__a="two")
    remote("put", "-r", "d", "/")
    os.rename(here / "d", here / "old")
    os.rename(here / "e", here / "d")
    assert last_line(remote("put", "-r", "d", "/")).startswith("1 uploaded")
    assert tree(there) == {"d/a.txt": "two"}


def test_a_file_that_was_just_written_is_not_remembered(
    remote: Portico, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second change within one tick of the clock would leave all its times as they are."""
    make(here, a="one")
    moment = os.stat(here / "a.txt").st_mtime_ns
    monkeypatch.setattr("portico.client.transfers.sources.time.time_ns", lambda: moment + 1_000_000)
    remote("put", "a.txt", "/")
    assert last_line(remote("put", "a.txt", "/")).startswith("1 uploaded")
    monkeypatch.undo()


@pytest.mark.parametrize("size", [3, 3_000_000])
def test_checksum_skips_by_content_alone(remote: Portico, here: Path, there: Path, size: int) -> None:
    make(here, d__a="a" * size, d__b="b" * size, d__c="c" * size)
    make(there, d__a="a" * size, d__b="b" * size, d__c="c" * size)
    written(there / "d", "b.txt", "b" * (size - 1) + "x", 4_000_000_000)
    assert last_line(remote("put", "-r", "d", "/", "--checksum", "--dry-run")).startswith(
        "1 would be uploaded, 2 skipped"
    )
    assert last_line(remote("get", "-r", "/d", "--checksum", "--dry-run")).startswith(
        "1 would be downloaded, 2 skipped"
    )
    assert last_line(remote("sync", "up", "d", "/d", "--checksum")).startswith("1 uploaded, 2 skipped")
    assert tree(there) == tree(here)
    # From now on it is known, without a look at the content.
    assert last_line(remote("put", "-r", "d", "/")).startswith("0 uploaded, 3 skipped")


def test_checksum_believes_no_record(remote: Portico, here: Path, there: Path) -> None:
    make(here, a="one")
    remote("put", "a.txt", "/")
    status = os.stat(there / "a.txt")
    (there / "a.txt").write_text("bad")  # as a disk does it that loses bits
    os.utime(there / "a.txt", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert last_line(remote("put", "a.txt", "/")).startswith("0 uploaded, 1 skipped")
    assert last_line(remote("put", "--checksum", "a.txt", "/")).startswith("1 uploaded")
    assert tree(there) == {"a.txt": "one"}


def test_the_record_is_not_in_what_is_sent(
    remote: Portico, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "state"))
    make(here, a="one", state__portico__transfers__mine="two")
    for _ in range(2):
        outcome = remote("put", "-r", ".", "/")
        assert outcome.code == 0, outcome.err
    assert tree(there) == {"a.txt": "one"}
    assert list((here / "state" / "portico" / "transfers").glob("*.db"))


def test_a_record_that_cannot_be_had_costs_only_time(remote: Portico, here: Path, there: Path, tmp_path: Path) -> None:
    make(here, a="one")
    (tmp_path / "state").write_text("a file where the folder should be")
    for _ in range(2):
        outcome = remote("put", "a.txt", "/")
        assert (outcome.code, outcome.err.count("\n")) == (0, 1)
        assert last_line(outcome).startswith("1 uploaded")


@pytest.mark.parametrize("rubbish", [b"no database at all" * 100, b"SQLite format 3\0" + b"x" * 5000, b""])
def test_a_damaged_record_is_begun_anew(
    remote: Portico, here: Path, there: Path, tmp_path: Path, rubbish: bytes
) -> None:
    make(here, a="one")
    remote("put", "a.txt", "/")
    (file,) = (tmp_path / "state" / "portico" / "transfers").iterdir()
    file.write_bytes(rubbish)
    for _ in range(2):
        outcome = remote("put", "a.txt", "/")
        assert (outcome.code, outcome.err.count("\n")) == (0, 1), outcome.err
    assert last_line(remote("put", "a.txt", "/")).startswith("0 uploaded, 1 skipped")


def test_the_record_holds_no_names_and_is_private(remote: Portico, here: Path, tmp_path: Path) -> None:
    make(here, **{"very-secret-name": "one"})
    remote("put", "very-secret-name.txt", "/")
    (file,) = (tmp_path / "state" / "portico" / "transfers").iterdir()
    assert b"secret-name" not in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_dry_run_remembers_nothing(remote: Portico, here: Path, there: Path) -> None:
    make(here, a="one")
    make(there, a="one")
    remote("put", "--dry-run", "--checksum", "a.txt", "/")
    assert last_line(remote("put", "a.txt", "/")).startswith("1 uploaded")


def test_users_and_gateways_are_kept_apart(
    remote: Portico, gateway: Gateway, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(here, a="one")
    remote("put", "a.txt", "/")
    remote("login", gateway.url, "--user", "bringer", "--profile", "b", "--password-stdin", stdin="pass word")
    remote("put", "a.txt", "/b.txt", "--profile", "b")
    assert len(list((tmp_path / "state" / "portico" / "transfers").iterdir())) == 2
    monkeypatch.setenv("PORTICO_TOKEN", gateway.login()["access_token"])
    assert last_line(remote("put", "a.txt", "/")).startswith("0 uploaded, 1 skipped")  # who it is, is asked
    assert len(list((tmp_path / "state" / "portico" / "transfers").iterdir())) == 2


@pytest.fixture
def record(config: Path) -> TransferRecord:
    return TransferRecord("https://files.example.com", "alice")


def pair(number: int) -> Pair:
    return Pair(number.to_bytes(16, "big"), number, number)


def test_programs_share_a_record(record: TransferRecord) -> None:
    with closing(TransferRecord("https://files.example.com", "alice")) as other:
        with closing(record):
            for number in range(1200):
                record.add(f"/{number}", "local", pair(number))
        for number in range(1200):
            found = other.find(f"/{number}", "local")
            assert found is not None
            assert found[:4] == pair(number)[:4]
        other.add("/other", "local", pair(7))
    with closing(TransferRecord("https://files.example.com", "alice")) as third:
        assert third.find("/other", "local")
        assert third.find("/other", "elsewhere") is None


def test_a_killed_program_loses_little(record: TransferRecord) -> None:
    """What was noted goes to the file while the program runs, not in its end."""
    for number in range(1100):
        record.add(f"/{number}", "local", pair(number))
    with closing(TransferRecord("https://files.example.com", "alice")) as after:
        assert after.find("/999", "local")


def test_the_record_is_bounded(record: TransferRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_record, "_MAX_PAIRS", 100)
    today = record._today
    with closing(record):
        for age, name in ((500, "ancient"), (10, "old"), (0, "new")):
            record._today = today - age
            for number in range(100 if name == "new" else 10):
                record.add(f"/{name}/{number}", "local", pair(number))
        record._today = today
    with closing(TransferRecord("https://files.example.com", "alice")) as after:
        assert after._database is not None
        assert after._database.execute("SELECT count(*) FROM pairs").fetchone() == (100,)
        assert after.find("/ancient/1", "local") is None
        assert after.find("/old/1", "local") is None
        assert all(after.find(f"/new/{number}", "local") for number in range(100))


def entry(moment: str, size: int = 3) -> Entry:
    return Entry("a.txt", "/a.txt", is_folder=False, size=size, last_modified=moment)


def test_a_service_that_tells_whole_seconds(remote: Portico, here: Path) -> None:
    """It may say when it answered, and date the file from when the upload began."""
    make(here, a="one")
    local, status = str(here / "a.txt"), os.stat(here / "a.txt")
    options = SimpleNamespace(checksum=False, dry_run=False)
    with connect(SimpleNamespace(profile=None)) as client, client.record() as record:

        def judged(moment: str, *, down: bool = False) -> bool | Candidate:
            return Comparison(client, options, record).judge("/a.txt", entry(moment), local, status, down=down)

        comparison = Comparison(client, options, record)
        reported = entry("2026-01-01T10:00:30.000Z")
        comparison.sent(Receipt("/a.txt", reported, local, status, seconds=20.0))
        record._flush()
        assert judged("2026-01-01T10:00:10.000Z", down=True) is False  # it might be another's
        assert judged("2026-01-01T10:00:05.000Z") is False
        assert judged("2026-01-01T10:00:35.000Z") is False
        assert judged("2026-01-01T10:00:10.250Z") is True
        record._flush()
        assert judged("2026-01-01T10:00:10.000Z", down=True) is True  # a listing tells more than a look
        assert judged("2026-01-01T10:00:11.000Z") is False  # from the first look on it is exact


def test_a_service_that_tells_milliseconds(remote: Portico, here: Path) -> None:
    make(here, a="one")
    local, status = str(here / "a.txt"), os.stat(here / "a.txt")
    with connect(SimpleNamespace(profile=None)) as client, client.record() as record:
        comparison = Comparison(client, SimpleNamespace(checksum=False, dry_run=False), record)
        reported = entry("2026-01-01T10:00:30.123Z")
        comparison.sent(Receipt("/a.txt", reported, local, status, seconds=20.0))
        record._flush()
        assert comparison.judge("/a.txt", reported, local, status, down=True) is True
        other = entry("2026-01-01T10:00:30.124Z")
        assert comparison.judge("/a.txt", other, local, status, down=False) is False


def test_large_files_are_worth_asking_for_a_digest(remote: Portico, here: Path, there: Path) -> None:
    """Without a record, as on another machine; but not where the storage has none."""
    (here / "a.txt").write_bytes(bytes(2_000_000))
    (there / "a.txt").write_bytes(bytes(2_000_000))
    local, status = str(here / "a.txt"), os.stat(here / "a.txt")
    with connect(SimpleNamespace(profile=None)) as client, client.record() as record:
        comparison = Comparison(client, SimpleNamespace(checksum=False, dry_run=False), record)
        found = client.stat("/a.txt")
        verdict = comparison.judge("/a.txt", found, local, status, down=False)
        assert isinstance(verdict, Candidate)
        assert comparison.equal([(verdict, found, status)]) == set()
        assert comparison.judge("/a.txt", found, local, status, down=False) is False


def test_a_young_file_of_whole_seconds_is_asked_for_its_etag(remote: Portico, here: Path, there: Path) -> None:
    """A version that was stored within the same second has the same time, and another etag."""
    make(there, a="one")
    os.utime(there / "a.txt", (4_000_000_000, 4_000_000_000))
    remote("get", "/a.txt")
    assert last_line(remote("get", "/a.txt")).startswith("0 downloaded, 1 skipped")
    renamed(there, "a.txt", "two", 4_000_000_000)
    assert last_line(remote("get", "/a.txt")).startswith("1 downloaded")
    assert tree(here) == {"a.txt": "two"}


def test_the_name_of_a_file_that_was_kept_beside_another(remote: Portico, here: Path, there: Path) -> None:
    make(there, a="old")
    make(here, a="newer", b="b")
    outcome = remote("put", "--rename", "a.txt", "b.txt", "/")
    assert (outcome.code, outcome.out) == (0, "a.txt is stored as /a (1).txt\n")
    assert tree(there) == {"a.txt": "old", "a (1).txt": "newer", "b.txt": "b"}
    outcome = remote("put", "--rename", "-n", "a.txt", "/")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
