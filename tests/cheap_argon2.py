"""Argon2 is slow on purpose. Tests that do not look at its cost need not pay it."""

from typing import Any

import pytest
from argon2.low_level import hash_secret_raw

from portico.accounts import passwords
from portico.store import backup_file

LEAST_KIB = 8
"""What Argon2 needs at least, for each lane."""


class CheapArgon2:
    """Passwords and the keys of backups at the lowest cost, in this process. What they prove stays the same."""

    def __init__(self) -> None:
        self._patch = pytest.MonkeyPatch()

    def begin(self) -> None:
        self._patch.setattr(passwords, "MEMORY_KIB", LEAST_KIB)
        self._patch.setattr(passwords, "PASSES", 1)
        self._patch.setattr(backup_file, "hash_secret_raw", self._derived)

    def end(self) -> None:
        self._patch.undo()

    def _derived(self, *arguments: Any, **costs: Any) -> bytes:
        cheap = {"time_cost": 1, "memory_cost": LEAST_KIB * costs["parallelism"]}
        return hash_secret_raw(*arguments, **{**costs, **cheap})
