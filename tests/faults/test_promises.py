"""Lines of `make soak` in short: what is promised holds, if not yet how often and how quickly."""

from pathlib import Path

import pytest

from .checks import BRIEF, BRIEF_IF_THOROUGH, LINES
from .figures import Effort


@pytest.mark.parametrize(
    "name", [*BRIEF, *(pytest.param(name, marks=pytest.mark.thorough) for name in BRIEF_IF_THOROUGH)]
)
async def test_line(name: str, tmp_path: Path) -> None:
    figures = await LINES[name](Effort(False, tmp_path))
    assert figures
    assert [figure for figure in figures if not figure.reached and not figure.timed] == []
