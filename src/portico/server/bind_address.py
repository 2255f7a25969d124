"""The address to listen on: whether it is safe, and whether it is free."""

import errno
import socket
import time
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

from portico.model.errors import PorticoError

Address = IPv4Address | IPv6Address

_BUSY_SECONDS = 1.0


class AddressUnusable(PorticoError, code="address-unusable"): ...


def resolve(host: str) -> Address:
    """The address of a host name, preferably IPv4; browsers try both for `localhost`."""
    with suppress(ValueError):
        return ip_address(host)
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise AddressUnusable(f"The host name {host!r} can't be resolved; use an address of this machine.") from None
    addresses = [ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in found]
    return min(addresses, key=lambda address: address.version)


def is_loopback(address: Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def check_exposure(address: Address, *, protected: bool) -> None:
    """Refuse to send passwords over a network in clear text; `protected` by TLS, here or at a proxy."""
    if not (protected or is_loopback(address)):
        raise AddressUnusable(
            f"Listening on {address} needs TLS, because passwords would cross the network in clear "
            "text. Add --tls auto (or --tls CERT,KEY), or --behind-proxy RANGE if a proxy in front "
            "terminates TLS."
        )


def check_free(address: Address, port: int) -> None:
    """Bind briefly, to report a failure in a sentence.

    A port in use is tried for a moment: it may be that of workers that are being killed. This socket does not set
    SO_REUSEPORT, so it conflicts with listeners that do, such as another Portico.
    """
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((str(address), port))
                probe.listen(1)
            return
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                raise AddressUnusable(_reason(error, address, port)) from None
        time.sleep(0.05)


def check_apart(metrics_port: int, port: int) -> None:
    if metrics_port == port:
        raise AddressUnusable(
            f"metrics.address uses the gateway's own port {port}; choose another one, or leave it empty."
        )


def check_metrics(host: str, port: int, *, besides: int) -> None:
    """Check that the metrics can use this address, while the gateway uses the port `besides`."""
    check_apart(port, besides)
    try:
        check_free(resolve(host), port)
    except AddressUnusable:
        raise AddressUnusable(
            f"The metrics can't be served at {host} port {port}, because it is in use or not an "
            "address of this machine. Change metrics.address, or leave it empty."
        ) from None


def _reason(error: OSError, address: Address, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        other = port + 1 if port < 65535 else port - 1
        return f"Another program uses port {port} of {address}; stop it, or use another port with --port {other}."
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            f"Port {port} is reserved for the system; use a port above 1023 with --port, or a "
            "proxy, or run Portico as a service that can use it "
            "(AmbientCapabilities=CAP_NET_BIND_SERVICE in systemd)."
        )
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        return f"{address} is not an address of this machine; use --host 127.0.0.1, or --host 0.0.0.0 for all of its addresses."
    return f"Portico can't listen on {address} port {port} ({error.strerror})."
