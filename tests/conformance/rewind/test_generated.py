"""Generated work of two actors, of whom one is rewound: the tree is as if that one had never acted."""

import pathlib

import pytest

from ..harness import Harness
from .worlds import flaw_of


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "together"])
async def test_the_tree_is_as_if_one_had_never_acted(
    harness: Harness, migrated_file: pathlib.Path, tmp_path: pathlib.Path, apart: bool, thorough: bool
) -> None:
    for seed in range(harness.effort * (4 if thorough else 1)):
        assert await flaw_of(harness, migrated_file, tmp_path, seed, apart=apart) == ""
