"""Secrets and other values that a policy file refers to."""

import os
from collections.abc import Mapping
from pathlib import Path

from portico.accounts.policy.file import Reference
from portico.model.errors import InvalidRequest

_MAX_BYTES = 1024 * 1024


class References:
    """Paths are relative to `folder`, the one of the policy file."""

    def __init__(self, folder: Path, environment: Mapping[str, str] = os.environ) -> None:
        self._folder = folder
        self._environment = environment

    def resolve(self, reference: Reference) -> str:
        """The value; `InvalidRequest` if there is none."""
        if reference.source == "env":
            if not (text := self._environment.get(reference.name, "")):
                problem = "is empty" if reference.name in self._environment else "isn't set"
                raise InvalidRequest(f"The environment variable {reference.name} {problem}; set it and try again.")
            return text
        return self._content(self._folder / reference.name)

    def _content(self, file: Path) -> str:
        try:
            with open(file, "rb") as opened:
                data = opened.read(_MAX_BYTES + 1)
            text = data.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise InvalidRequest(f"The file {file} is not valid UTF-8; encode it as UTF-8.") from None
        except OSError as error:
            raise InvalidRequest(f"The file {file} can't be read ({error.strerror}).") from None
        if len(data) > _MAX_BYTES:
            raise InvalidRequest(f"The file {file} is too large for a secret.")
        if not text:
            raise InvalidRequest(f"The file {file} is empty.")
        return text
