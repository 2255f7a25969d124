"""A limit on the idle connections of one client address.

Granian limits connections in total, but not by address. So each worker looks at its own sockets a few times a second,
and where an address has too many without a request, it closes some: first those that never sent a complete request,
then those that have been idle longest. A connection whose request is being served is never closed, since a whole office
may share one address.
"""

import os
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import structlog

from portico.runtime.processes import borrowed_socket

INTERVAL_SECONDS = 0.25
GRACE_SECONDS = 1.0
"""Seconds that a new connection has to begin its request, even on a busy machine."""

Networks = Collection[IPv4Network | IPv6Network]
Peer = tuple[str, int]
"""The address and port of the client, as Granian reports them."""

log = structlog.get_logger()


class IdleConnections:
    def __init__(self, port: int, most: int, exempt: Networks) -> None:
        """Allow `most` per address; `exempt` addresses have no limit."""
        self._port = port
        self._most = most
        self._exempt = exempt
        self._busy: dict[Peer, int] = defaultdict(int)
        """How many requests are being served."""
        self._last_request: dict[Peer, float] = {}
        self._first_seen: dict[Peer, float] = {}

    def tracking(self, app: Any) -> Any:
        """Wrap the application, to know which connections have a request."""

        async def application(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            host, port = scope["client"]
            peer = host, int(port)  # a string in Granian's scope
            self._last_request[peer] = time.monotonic()
            self._busy[peer] += 1
            try:
                await app(scope, receive, send)
            finally:
                self._busy[peer] -= 1
                if not self._busy[peer]:
                    del self._busy[peer]

        return application

    def watch(self) -> None:
        """Check periodically, in a thread: thousands of sockets would block the event loop for too long."""
        threading.Thread(target=self._check_forever, name="idle-connections", daemon=True).start()

    def _check_forever(self) -> None:
        pause = threading.Event()
        while not pause.wait(INTERVAL_SECONDS):
            try:
                self.check()
            except OSError:  # for example no descriptor left; the next check may succeed
                continue
            except Exception as error:  # a bug must not disable the limit permanently
                log.error("bug", exc_info=error)

    def check(self) -> None:
        """Close surplus connections. While no address can have too many, this only lists one folder."""
        now = time.monotonic()
        numbers = os.listdir("/proc/self/fd")
        if len(numbers) <= self._most:
            self._first_seen.clear()
            if len(self._last_request) > 4 * self._most:  # most of them are closed by now
                self._last_request.clear()
            return
        found = dict(_connections(map(int, numbers), self._port))
        for unseen in set(self._last_request).difference(found):
            if self._last_request[unseen] < now:  # otherwise it arrived during this check
                del self._last_request[unseen]
        self._first_seen = {peer: self._first_seen.get(peer, now) for peer in found}
        order = {peer: (self._last_request.get(peer, 0.0), since) for peer, since in self._first_seen.items()}
        waiting = sorted(set(found).difference(self._busy), key=order.__getitem__)
        surplus = surplus_of(waiting, self._most, self._exempt)
        closed = sum(_close(found[peer], peer) for peer in surplus if now - self._first_seen[peer] >= GRACE_SECONDS)
        if closed:
            log.warning("waiting-connections-ended", ended=closed, address=surplus[0][0])


def surplus_of(waiting: Iterable[Peer], most: int, exempt: Networks) -> list[Peer]:
    """The first connections of each address that has more than `most`; the rest may stay."""
    shares: dict[str, list[Peer]] = defaultdict(list)
    for peer in waiting:
        shares[peer[0]].append(peer)
    groups: dict[object, list[Peer]] = defaultdict(list)
    for host, peers in shares.items():
        address = ip_address(host)
        if isinstance(address, IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        if not any(address in network for network in exempt):
            # Internet providers assign each customer at least a /64.
            share = ip_network((address, 64), strict=False) if isinstance(address, IPv6Address) else address
            groups[share] += peers
    return [peer for peers in groups.values() for peer in peers[: max(0, len(peers) - most)]]


def _connections(numbers: Iterable[int], port: int) -> Iterable[tuple[Peer, int]]:
    """The accepted sockets of this port among our descriptors, by their client."""
    for number in numbers:
        try:
            # This family has the longest addresses; the real one does not matter.
            candidate = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, number)
        except OSError:
            continue
        try:
            if candidate.getsockname()[1] == port:
                yield _peer(candidate), number
        except (OSError, IndexError, TypeError):
            continue  # not a socket, a listening one, or just closed
        finally:
            candidate.detach()


def _peer(connection: socket.socket) -> Peer:
    host, port = connection.getpeername()[:2]
    return host.partition("%")[0], port


def _close(number: int, peer: Peer) -> bool:
    """Close the connection if the descriptor still belongs to it; the server reuses them."""
    with suppress(OSError), borrowed_socket(number) as held:
        if _peer(held) == peer:
            held.shutdown(socket.SHUT_RDWR)
            return True
    return False
