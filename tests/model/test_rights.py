from itertools import combinations

import pytest

from portico.model.rights import DEFAULT_RIGHTS, Right, format_rights, parse_rights

EVERY_SET = [frozenset(rights) for count in range(5) for rights in combinations(Right, count)]


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
