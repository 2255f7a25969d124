"""The system's key ring, where the library `keyring` is installed and finds one that is worth the name.

A server without a desktop has none, and its libraries say so in many ways: whatever goes wrong here means only that
the tokens are kept elsewhere.
"""

from typing import Any

_SERVICE = "portico"
_RECOMMENDED = 1
"""Back ends below this priority are stand-ins, such as plain files."""


def load(name: str) -> str | None:
    try:
        text = _library().get_password(_SERVICE, name)
    except Exception:
        return None
    return text if isinstance(text, str) else None


def save(name: str, text: str) -> bool:
    """Whether it is kept there."""
    try:
        ring = _library()
        if ring.get_keyring().priority < _RECOMMENDED:
            return False
        ring.set_password(_SERVICE, name, text)
        return bool(ring.get_password(_SERVICE, name) == text)
    except Exception:
        return False


def forget(name: str) -> None:
    try:
        _library().delete_password(_SERVICE, name)
    except Exception:  # noqa: S110
        pass


def _library() -> Any:
    from importlib import import_module

    return import_module("keyring")
