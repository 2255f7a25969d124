"""Portico: a safe, fast gateway in front of storage.

`Client` and `AsyncClient` are loaded on first use: the server, and every other part, does without them.

`__version__` is the release and the commit it was built from, such as `0.1.0+g1a2b3c4d5e`. A build writes the commit to
`commit.txt` (`hatch_build.py`), and a checkout reads it from `.git`.
"""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portico.client import AsyncClient, Client

RELEASE = "0.1.0"

_HERE = os.path.dirname(os.path.abspath(__file__))
_SHOWN_DIGITS = 10


def version() -> str:
    return version_of(_text(_HERE, "commit.txt") or commit_of(os.path.dirname(os.path.dirname(_HERE))))


def version_of(commit: str) -> str:
    is_commit = len(commit) >= _SHOWN_DIGITS and all(digit in "0123456789abcdef" for digit in commit)
    return f"{RELEASE}+g{commit[:_SHOWN_DIGITS]}" if is_commit else RELEASE


def commit_of(checkout: str) -> str:
    """The commit of a checkout, without running git, which may not be installed; empty if it is none."""
    place = os.path.join(checkout, ".git")
    if pointer := _text(place):  # a file: the checkout is a worktree or a submodule
        place = os.path.join(checkout, pointer.removeprefix("gitdir: "))
    head = _text(place, "HEAD")
    if not head.startswith("ref: "):
        return head
    shared = os.path.join(place, _text(place, "commondir"))
    name = head.removeprefix("ref: ")
    if commit := _text(place, name) or _text(shared, name):
        return commit
    packed = (line.partition(" ") for line in _text(shared, "packed-refs").splitlines())
    return next((commit for commit, _, ref in packed if ref == name), "")


def _text(*place: str) -> str:
    try:
        with open(os.path.join(*place), encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


__version__ = version()
__all__ = ["AsyncClient", "Client", "__version__"]

if not TYPE_CHECKING:  # or every misspelt name would pass as Any

    def __getattr__(name: str) -> Any:
        if name in ("AsyncClient", "Client"):
            import portico.client

            return getattr(portico.client, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
