"""`local`: a plain folder of this machine, the embedded default."""

from portico.providers.local.provider import LocalProvider

__all__ = ["LocalProvider"]
