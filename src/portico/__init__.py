"""Portico: a safe, fast gateway in front of storage.

`Client` and `AsyncClient` are loaded on first use: the server, and every other part, does without them.
"""

from typing import TYPE_CHECKING, Any

from portico.version import version

if TYPE_CHECKING:
    from portico.client import AsyncClient, Client

__version__ = version()
__all__ = ["AsyncClient", "Client", "__version__"]

if not TYPE_CHECKING:  # or every misspelt name would pass as Any

    def __getattr__(name: str) -> Any:
        if name in ("AsyncClient", "Client"):
            import portico.client

            return getattr(portico.client, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
