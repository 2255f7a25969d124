"""Limits of users and groups: until when, and from where, an account may be used."""

from collections.abc import Collection
from datetime import datetime
from enum import Enum
from ipaddress import ip_network
from typing import Any, Final, Literal, TypeAlias

from portico.model.errors import InvalidRequest
from portico.runtime import clock
from portico.store.reach import Network

MAX_RANGES: Final = 32
"""Address ranges of one user, group or key."""


class _Unset(Enum):
    UNSET = "unset"


UNSET: Final = _Unset.UNSET
"""The default of an argument that leaves a limit unchanged; None removes the limit."""
Unset: TypeAlias = Literal[_Unset.UNSET]


def parse_network(text: str) -> Network:
    """An address or a range; `InvalidRequest` if it is neither."""
    try:
        return ip_network(text)
    except ValueError:
        raise InvalidRequest(
            f"{text[:64]!r} is not a valid address or range; use one like 192.0.2.7, 10.0.0.0/8 or fd00::/8."
        ) from None


def limits(expires_at: datetime | Unset | None, addresses: Collection[Network] | Unset) -> dict[str, Any]:
    """The columns of the given limits."""
    values: dict[str, Any] = {}
    if expires_at is not UNSET:
        values["expires_at"] = None if expires_at is None else clock.from_datetime(expires_at)
    if addresses is not UNSET:
        if len(addresses) > MAX_RANGES:
            raise InvalidRequest(f"There can be at most {MAX_RANGES} address ranges; use wider ones.")
        values["addresses"] = " ".join(map(str, addresses))
    return values
