"""fsspec's own suites: what every filesystem must do alike."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fsspec.tests.abstract import (
    AbstractCopyTests,
    AbstractFixtures,
    AbstractGetTests,
    AbstractOpenTests,
    AbstractPipeTests,
    AbstractPutTests,
)

from portico.filesystem import PorticoFileSystem


class Fixtures(AbstractFixtures):
    @pytest.fixture
    def fs(self, fs: PorticoFileSystem, root: Path) -> PorticoFileSystem:
        return fs

    @pytest.fixture
    def fs_path(self) -> str:
        return "/suite"

    @pytest.fixture
    def fs_join(self) -> Callable[..., str]:
        return lambda *parts: "/".join(parts)


class TestCopy(Fixtures, AbstractCopyTests):
    pass


class TestGet(Fixtures, AbstractGetTests):
    pass


class TestPut(Fixtures, AbstractPutTests):
    pass


class TestOpen(Fixtures, AbstractOpenTests):
    pass


class TestPipe(Fixtures, AbstractPipeTests):
    pass
