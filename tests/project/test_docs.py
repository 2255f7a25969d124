"""The documents name files that exist."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
ROOTS = (PROJECT / "src" / "portico", PROJECT)
PATHS = re.compile(r"`((?!/|\.portico~|a/`)[\w*./-]+/(?:[\w*.-]+\.\w+)?)`")


@pytest.mark.parametrize("document", ["docs/architecture.md", "docs/decisions.md", "CONTRIBUTING.md"])
def test_every_path_exists(document: str) -> None:
    named = set(PATHS.findall((PROJECT / document).read_text()))
    named = {path for path in named if "NAME" not in path}
    missing = [path for path in named if not any(any(root.glob(path)) for root in ROOTS)]
    assert named
    assert not missing, sorted(missing)
