"""The system's key ring, if the `keyring` library is installed and finds a usable back end.

Servers without a desktop have none, and libraries report that in many ways, with exceptions of their own. So all of them are
caught: a key ring that does not work is one that does not exist, and the tokens are stored elsewhere.
"""

from typing import Any

_SERVICE = "portico"
_RECOMMENDED = 1
"""Back ends with a lower priority are fallbacks, such as plain files."""


def load(name: str) -> str | None:
    try:
        text = _library().get_password(_SERVICE, name)
    except Exception:  # then the profile has the tokens, or the user has to sign in
        return None
    return text if isinstance(text, str) else None


def save(name: str, text: str) -> bool:
    """Whether the key ring has stored it."""
    try:
        ring = _library()
        if ring.get_keyring().priority < _RECOMMENDED:
            return False
        ring.set_password(_SERVICE, name, text)
        return bool(ring.get_password(_SERVICE, name) == text)
    except Exception:  # then they go to the profile
        return False


def forget(name: str) -> None:
    try:
        _library().delete_password(_SERVICE, name)
    except Exception:  # noqa: S110 - nothing is there, or nothing looks for it any more
        pass


def _library() -> Any:
    from importlib import import_module

    return import_module("keyring")
