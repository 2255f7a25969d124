"""One attempt to sign in, and the keys under which it is counted."""

import ipaddress
from dataclasses import dataclass
from hashlib import sha256

from portico.accounts.names import name_key


@dataclass(frozen=True, slots=True)
class Attempt:
    """The keys are hashes, so that a long user name fills no more of the database than a short one."""

    name: bytes
    """The user name that was given, whether or not there is such a user."""
    pair: bytes
    """That name from that address."""
    place: bytes
    """The address."""
    device: bytes | None = None
    """The device that proved to have signed in before as this user."""

    @property
    def own(self) -> bytes:
        """The narrowest key of the one who makes the attempt: the device, or else the pair."""
        return self.device or self.pair


def attempt_of(username: str, address: str, device: bytes | None = None) -> Attempt:
    """However the name is written, and whichever address of its network it is, the keys are the same."""
    network = _encode(network_of(address))
    name = _encode(name_key(username) or username[:256])
    return Attempt(
        name=digest_of_name(username),
        pair=sha256(b"pair\0" + network + b"\0" + name).digest(),
        place=digest_of_place(address),
        device=None if device is None else sha256(b"device\0" + device).digest(),
    )


def digest_of_name(username: str) -> bytes:
    return sha256(b"name\0" + _encode(name_key(username) or username[:256])).digest()


def digest_of_place(address: str) -> bytes:
    return sha256(b"address\0" + _encode(network_of(address))).digest()


def digest_of_refreshes(address: str) -> bytes:
    """Under which refresh tokens from that address are counted that are none."""
    return sha256(b"refresh\0" + _encode(network_of(address))).digest()


def network_of(address: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 that one IPv6 subscriber has."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.IPv6Network((parsed, 64), strict=False))
    return str(parsed)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
