"""Sealed columns: only the key and the label that closed a value open it."""

import pytest

from portico.store.encrypted_columns import Sealed, Unsealable

SEALED = Sealed(bytes(32))


@pytest.mark.parametrize("plain", [b"", b"state", bytes(100_000)])
def test_what_was_sealed_opens(plain: bytes) -> None:
    box = SEALED.seal(plain, "row")
    assert SEALED.open(box, "row") == plain
    assert plain == b"" or plain not in box
    assert SEALED.seal(plain, "row") != box


@pytest.mark.parametrize("cut", [0, 1, 5, 13, 20])
def test_what_was_cut_does_not_open(cut: int) -> None:
    with pytest.raises(Unsealable):
        SEALED.open(SEALED.seal(b"state")[:cut])


def test_what_is_of_another_row_key_or_version_does_not_open() -> None:
    box = SEALED.seal(b"state", "row")
    for other, sealed, label in (
        (SEALED, box, "another"),
        (Sealed(bytes(31) + b"x"), box, "row"),
        (SEALED, b"\x02" + box[1:], "row"),
        (SEALED, box[:-1] + bytes([box[-1] ^ 1]), "row"),
    ):
        with pytest.raises(Unsealable):
            other.open(sealed, label)
    assert "0" not in repr(SEALED)
