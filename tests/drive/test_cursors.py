import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from portico.drive.cursors import CursorSeal
from portico.model.errors import InvalidCursor

untimed = settings(deadline=None)

SEAL = CursorSeal(b"k" * 32)
SCOPE = "local\0/srv/files\0/a"

tokens = st.text(min_size=1, max_size=200)
scopes = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def refused(cursor: str, scope: str = SCOPE, seal: CursorSeal = SEAL) -> None:
    with pytest.raises(InvalidCursor):
        seal.open(cursor, scope)


@untimed
@given(tokens, scopes)
def test_a_token_comes_back_unchanged(token: str, scope: str) -> None:
    cursor = SEAL.close(token, scope)
    assert cursor.startswith(token)
    assert CursorSeal(b"k" * 32).open(cursor, scope) == token


@untimed
@given(tokens, st.data())
def test_any_other_character_is_noticed(token: str, data: st.DataObject) -> None:
    cursor = SEAL.close(token, SCOPE)
    place = data.draw(st.integers(0, len(cursor) - 1))
    other = data.draw(st.characters())
    assume(other != cursor[place])
    refused(cursor[:place] + other + cursor[place + 1 :])


def test_any_flipped_bit_is_noticed() -> None:
    cursor = SEAL.close("AQIDBA==", SCOPE)
    for place, character in enumerate(cursor):
        for bit in range(8):
            refused(cursor[:place] + chr(ord(character) ^ 1 << bit) + cursor[place + 1 :])


@untimed
@given(tokens, st.data())
def test_more_or_less_is_noticed(token: str, data: st.DataObject) -> None:
    cursor = SEAL.close(token, SCOPE)
    cut = data.draw(st.integers(1, len(cursor)))
    more = data.draw(st.text(min_size=1, max_size=30))
    for altered in (cursor[cut:], cursor[:-cut], cursor + more, more + cursor):
        refused(altered)


@untimed
@given(tokens, scopes, scopes)
def test_another_scope_is_noticed(token: str, scope: str, other: str) -> None:
    assume(scope != other)
    refused(SEAL.close(token, scope), other)


@untimed
@given(tokens)
def test_scope_and_token_do_not_run_into_each_other(token: str) -> None:
    cursor = SEAL.close(f"b{token}", "local\0/srv\0/a")
    refused(cursor[1:], "local\0/srv\0/ab")
    cursor = SEAL.close(token, "local\0/srv\0/ab")
    refused(f"b{cursor}", "local\0/srv\0/a")


@untimed
@given(tokens)
def test_another_key_is_noticed(token: str) -> None:
    refused(SEAL.close(token, SCOPE), seal=CursorSeal(b"K" * 32))


@untimed
@given(st.text(max_size=100))
def test_what_was_made_up_is_noticed(cursor: str) -> None:
    refused(cursor)


def test_a_tag_alone_is_no_cursor() -> None:
    refused(SEAL.close("", SCOPE))


def test_a_huge_cursor_is_refused() -> None:
    refused("A" * 64 * 1024)
    refused(SEAL.close("A" * 64 * 1024, SCOPE))
    assert SEAL.open(SEAL.close("A" * 8 * 1024, SCOPE), SCOPE) == "A" * 8 * 1024
