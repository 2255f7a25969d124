"""The address to listen on: whether it is safe, and whether it can be had."""

import errno
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

from portico.errors import PorticoError

Address = IPv4Address | IPv6Address


class AddressUnusable(PorticoError):
    code = "address-unusable"


def resolve(host: str) -> Address:
    """The address behind a host name; IPv4 is preferred, as a browser's `localhost` works with both."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise AddressUnusable(
            f"The host name {host!r} has no address; give one of this machine's own."
        ) from None
    addresses = [ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in found]
    return min(addresses, key=lambda address: address.version)


def is_loopback(address: Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def check_exposure(address: Address, *, protected: bool) -> None:
    """Passwords must not cross a network in clear: `protected` by TLS, or by a proxy that speaks it."""
    if not (protected or is_loopback(address)):
        raise AddressUnusable(
            f"Portico does not listen on {address} without TLS, because passwords would cross the network in clear: "
            "add --tls auto (or --tls CERT,KEY), or --behind-proxy RANGE if a proxy in front speaks TLS."
        )


def check_free(address: Address, port: int) -> None:
    """Bind for a moment, so that a failure is told in words.

    Without SO_REUSEPORT a listener that set it, such as another Portico, is in the way here, as it should be.
    """
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((str(address), port))
            probe.listen(1)
    except OSError as error:
        raise AddressUnusable(_reason(error, address, port)) from None


def check_apart(metrics_port: int, port: int) -> None:
    if metrics_port == port:
        raise AddressUnusable(
            f"Port {port} is the gateway's own; give metrics.address another one, or leave it empty."
        )


def check_metrics(host: str, port: int, *, besides: int) -> None:
    """Whether the metrics can have this address, and the gateway the port `besides` all the same."""
    check_apart(port, besides)
    try:
        check_free(resolve(host), port)
    except AddressUnusable:
        raise AddressUnusable(
            f"The metrics cannot be served at {host} port {port}, which is in use or not an address of this machine; "
            "give metrics.address another value, or an empty one."
        ) from None


def _reason(error: OSError, address: Address, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        other = port + 1 if port < 65535 else port - 1
        return f"Port {port} of {address} is in use by another program; stop that one, or take another port with --port {other}."
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            f"Port {port} is kept for the system: run Portico as a service that may use it "
            "(AmbientCapabilities=CAP_NET_BIND_SERVICE in systemd), or behind a proxy, or take a port from 1024 on with --port."
        )
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        return f"{address} is not an address of this machine; use --host 127.0.0.1, or --host 0.0.0.0 for all of its addresses."
    return f"Portico cannot listen on {address} port {port} ({error.strerror})."
