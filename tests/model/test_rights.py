from itertools import combinations

import pytest

from portico.model.rights import ALL_RIGHTS, DEFAULT_RIGHTS, OVERWRITE, Right, format_rights, missing_word, parse_rights

EVERY_SET = [
    frozenset(rights) for count in range(len(ALL_RIGHTS) + 1) for rights in combinations(sorted(ALL_RIGHTS), count)
]


@pytest.mark.parametrize("rights", EVERY_SET, ids=format_rights)
def test_rights_are_read_back(rights: frozenset[Right]) -> None:
    text = format_rights(rights)
    assert parse_rights(text) == rights
    assert parse_rights(text.replace(" ", ",")) == rights
    assert parse_rights(f" {text.replace(' ', ' ,  ')} ") == rights


def test_rights_have_a_fixed_order() -> None:
    assert format_rights(reversed(Right)) == "list download upload overwrite share"
    assert format_rights([Right.UPLOAD, Right.LIST, Right.UPLOAD]) == "list upload"
    assert parse_rights("overwrite list upload download list") == DEFAULT_RIGHTS


@pytest.mark.parametrize("word", ["write", "LIST", "list;upload", "*", "all", "lists"])
def test_a_word_that_is_no_right_is_named(word: str) -> None:
    with pytest.raises(ValueError, match="list, download, upload, overwrite") as caught:
        parse_rights(f"upload {word}")
    assert repr(word) in str(caught.value)


def test_overwrite_is_the_word_for_replace_and_delete() -> None:
    assert parse_rights("overwrite") == parse_rights("delete replace") == OVERWRITE
    assert format_rights(OVERWRITE) == "overwrite"
    assert format_rights([Right.DELETE, Right.LIST]) == "list delete"
    assert missing_word(Right.DELETE, {Right.LIST}) == missing_word(Right.REPLACE, set()) == Right.OVERWRITE
    assert missing_word(Right.DELETE, {Right.REPLACE}) == Right.DELETE
    assert missing_word(Right.UPLOAD, set()) == Right.UPLOAD
