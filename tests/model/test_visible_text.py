import json
import unicodedata

import pytest

from portico.model.visible_text import is_deceptive, visible

from ..names import DECEPTIVE, HONEST


@pytest.mark.parametrize("name", DECEPTIVE, ids=ascii)
def test_deceptive_characters_are_escaped(name: str) -> None:
    assert visible(name) == DECEPTIVE[name]
    assert is_deceptive(name)
    assert json.loads(f'"{visible(name)}"') == name


@pytest.mark.parametrize("name", HONEST, ids=ascii)
def test_honest_names_stay(name: str) -> None:
    assert visible(name) == name
    assert not is_deceptive(name)


def test_control_characters_are_escaped() -> None:
    assert visible("a\x1b[2Jb\nc\x85") == "a\\u001b[2Jb\\u000ac\\u0085"
    assert visible("one\ntwo\x07", lines=True) == "one\ntwo\\u0007"


def test_every_format_character_without_a_shape_is_escaped() -> None:
    """All of category Cf but those of Arabic, Syriac and Kaithi that stand around a number or a word, and are seen."""
    seen = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    raw = {
        code for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf" and visible(chr(code)) == chr(code)
    }
    assert raw <= seen
