"""Files of variables, as systemd reads them (env-file.c of version 254 and later)."""

import os
from pathlib import Path

import pytest

from portico.server.processes import FIXED
from portico.settings.settings import SettingsError, load
from portico.settings.sources import variables


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A=b", "b"),
        ("A=b\n", "b"),
        ("A=b\r\nB=c\r\n", "b"),
        ("  A = b c  \n", "b c"),
        ("A=\n", ""),
        ("A=", ""),
        ('A="b c"\n', "b c"),
        ("A='b c'\n", "b c"),
        ("A='b'\"c\" \n", "bc"),
        ("A='b'c d\n", "bc d"),
        ("A=b'c'\n", "b'c'"),
        ("A=$HOME`x`$(y)\n", "$HOME`x`$(y)"),
        ('A="$HOME"\n', "$HOME"),
        (r'A="a\$b\\c\"d\e"', r'a$b\c"d\e'),
        (r"A='a\$b'", r"a\$b"),
        ("A=a\\ \n", "a "),
        ("A=a\\\nb\n", "ab"),
        ('A="a\\\nb"\n', "ab"),
        ('A="a\nb"\n', "a\nb"),
        ("A='a\nb'\n", "a\nb"),
        ("A=b # no comment\n", "b # no comment"),
        ("A=b=c\n", "b=c"),
        ("# comment\n; comment\n\nno variable\nA=b\n", "b"),
        ("A=b\nA=c\n", "c"),
        ("#A=c\\\nA=b\n", "b"),
        ("1A=c\nA=b\nA-B=d\nexport A=e\n", "b"),
        ("A='unfinished", "unfinished"),
    ],
)
def test_values(text: str, value: str) -> None:
    found = variables(text)
    assert found.pop("A") == value
    assert set(found) <= {"B"}


def test_the_file_overrides_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "environment"
    file.write_text("PORTICO_SERVER_PORT=1234\n")
    client = {"PORTICO_SECURITY_CLIENT_ID": "id", "PORTICO_SECURITY_CLIENT_SECRET": "secret"}
    environment = {"PORTICO_SERVER_PORT": "4321", "PORTICO_ENVIRONMENT_FILE": str(file), **client}
    assert load(tmp_path, environment).port == 1234
    file.unlink()
    assert load(tmp_path, environment).port == 4321
    file.mkdir()
    with pytest.raises(SettingsError, match=f"{file}: can't be read \\({os.strerror(21)}\\)"):
        load(tmp_path, environment)


def test_the_guides_name_the_settings_that_need_a_restart() -> None:
    for page in ("settings.md", "deploy.md"):
        words = " ".join((Path(__file__).parents[2] / "docs" / page).read_text().split())
        listed = f"{', '.join(f'`{key}`' for key in FIXED[:-1])} and `{FIXED[-1]}`"
        assert listed in words, page
