"""The pinned Azurite, installed on first use."""

from pathlib import Path

from .. import npm


def installed() -> list[str]:
    """The command that starts Azurite."""
    place = npm.installed("azurite", Path(__file__).parent)
    return [npm.node(), str(place / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js")]
