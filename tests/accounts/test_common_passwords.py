import pytest

from portico.accounts.passwords import is_common


@pytest.mark.parametrize(
    "password",
    [
        *("password", "Passw0rd", "P@ssword1!", "Sommer2026!", "iloveyou123", "qwertyuiop", "1q2w3e4r", "zxcvbnm1"),
        *("12345678", "87654321", "0000000000", "31121999", "abcdefgh", "abcabcabc", "monkeymonkey", "Alice2026"),
        *("!!dragon!!", "Liverpool1", "Contraseña1", "letmein!", "admin123", "portico2026", "2026-01-31"),
    ],
)
def test_what_a_guesser_tries_first(password: str) -> None:
    assert is_common(password, "alice")


@pytest.mark.parametrize(
    "password",
    [
        *("correct horse", "a walk in the woods", "sunshine-river-94", "Tr0ub4dor&3", "hV7!kq2Zp", "alice in wonder"),
        *("730194820571936", "x" * 33, "ünïcödé wörds", "gTz4-passwort-88"),
    ],
)
def test_what_a_guesser_does_not(password: str) -> None:
    assert not is_common(password, "alice")
