"""Errors of a drive say what a user knows."""

import pytest

from portico.drive.errors import named_as_it_was
from portico.model.errors import already_exists
from portico.model.paths import Path
from portico.store.trash import DELETED, KEPT, Trashed


def test_no_id_of_the_trash_is_in_an_error() -> None:
    record = Trashed("0123abcd", "c", "/w/f", False, 1, DELETED, KEPT, "alice", 0, 1)
    with pytest.raises(Exception, match="'f' already exists") as caught, named_as_it_was(record, Path(("f",))):
        raise already_exists(record.id)
    assert record.id not in f"{caught.value} {caught.value.args}"
