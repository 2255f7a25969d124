"""Two changes of a process don't make a file and a folder of one name."""

import time
from contextlib import suppress

import pytest

from portico.model.errors import IsAFolder, NotAFolder
from portico.model.paths import Path
from portico.providers.objects import pending_names
from portico.providers.objects.pending_names import PendingNames

FILE, BELOW = Path(("a",)), Path(("a", "b"))


@pytest.fixture
def names() -> PendingNames:
    return PendingNames()


@pytest.mark.parametrize("is_done", [True, False])
def test_the_second_to_take_its_name_is_refused(names: PendingNames, is_done: bool) -> None:
    with names.pending(FILE) as slow:
        with names.pending(BELOW) as quick:
            quick.take()
            if not is_done:
                with pytest.raises(IsAFolder):
                    slow.take()
        with pytest.raises(IsAFolder):
            slow.take()
    with names.pending(BELOW) as slow, names.pending(FILE) as quick:
        quick.take()
        with pytest.raises(NotAFolder):
            slow.take()


def test_one_that_fails_beats_nobody(names: PendingNames) -> None:
    with names.pending(FILE) as slow:
        with suppress(OSError), names.pending(BELOW) as quick:
            quick.take()
            raise OSError
        slow.take()


@pytest.mark.parametrize("taken", [True, False])
def test_a_slow_change_does_not_collect_its_rivals(names: PendingNames, taken: bool) -> None:
    with names.pending(FILE) as slow:
        for number in range(100):
            with names.pending(FILE.child(str(number))) as quick:
                if taken:
                    quick.take()
        assert not slow.rivals


def test_what_is_not_remembered_is_not_trusted(names: PendingNames, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_names, "_REMEMBERED", 2)
    began = time.monotonic()
    assert names.has_no_file_since(began, BELOW)
    for name in ("a", "b", "c"):
        with names.pending(Path((name,))) as file:
            file.take()
    assert not names.has_no_file_since(began, Path(("other",)))
    assert names.has_no_file_since(time.monotonic(), BELOW)
