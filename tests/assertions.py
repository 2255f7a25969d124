"""Rewriting the assertions of tests once, instead of in every process that shares them.

All processes collect all tests at the same time. Without files in the cache, each took eight seconds of CPU for this.
"""

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


def rewrite_changed(config: pytest.Config) -> None:
    """Put into pytest's cache what the import of a test would put there."""
    state = config.stash.get(rewrite.assertstate_key, None)
    if state is None or sys.dont_write_bytecode:
        return
    for file in _tests(config):
        folder = rewrite.get_cache_dir(file)
        cached = folder / f"{file.stem}{rewrite.PYC_TAIL}"
        if rewrite._read_pyc(file, cached) is None and rewrite.try_makedirs(folder):
            source_hash, code = rewrite._rewrite_test(file, config)
            rewrite._write_pyc(state, code, source_hash, cached)


def _tests(config: pytest.Config) -> Iterator[Path]:
    for argument in config.args:
        place = config.invocation_params.dir / argument.partition("::")[0]
        if place.is_dir():
            yield from chain(place.rglob("test_*.py"), place.rglob("conftest.py"))
