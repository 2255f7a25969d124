"""Connections without a request: how many of them one address may hold.

The server library counts connections in all, and none by their address. So each worker looks at its own sockets a few times a
second, and where an address has too many that wait for a request, it ends some: those first that never sent a whole one,
then those whose last one is longest ago. A connection whose request is being served is never ended: behind one address
there may be an office full of people.
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

INTERVAL = 0.25
"""Seconds from one look to the next."""
GRACE = 1.0
"""Seconds that a new connection has for its request to begin, on a busy machine, too."""

Networks = Collection[IPv4Network | IPv6Network]
Peer = tuple[str, int]
"""The address and port of the other end, as the server library names them."""

log = structlog.get_logger()


class WaitingConnections:
    def __init__(self, port: int, most: int, exempt: Networks) -> None:
        """`most` of one address, `exempt` ones have no limit."""
        self._port = port
        self._most = most
        self._exempt = exempt
        self._busy: dict[Peer, int] = defaultdict(int)
        """Requests that are being served."""
        self._heard: dict[Peer, float] = {}
        """When the last request of a connection began."""
        self._seen: dict[Peer, float] = {}
        """When a connection was first looked at."""

    def noting(self, app: Any) -> Any:
        """The application, which tells of each request by which connection it came."""

        async def application(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            host, port = scope["client"]
            peer = host, int(port)  # the server library has it as text
            self._heard[peer] = time.monotonic()
            self._busy[peer] += 1
            try:
                await app(scope, receive, send)
            finally:
                self._busy[peer] -= 1
                if not self._busy[peer]:
                    del self._busy[peer]

        return application

    def watch(self) -> None:
        """Look again and again, in a thread: thousands of sockets would keep the event loop busy for too long."""
        threading.Thread(target=self._look_for_ever, name="waiting-connections", daemon=True).start()

    def _look_for_ever(self) -> None:
        rest = threading.Event()
        while not rest.wait(INTERVAL):
            try:
                self.look()
            except OSError:  # no descriptor left, say: there will be one
                continue
            except Exception as error:  # a bug must not switch the limit off for good
                log.error("bug", exc_info=error)

    def look(self) -> None:
        """End what is too much. Where no address can have too much, this costs one look at a folder."""
        now = time.monotonic()
        numbers = os.listdir("/proc/self/fd")
        if len(numbers) <= self._most:
            self._seen.clear()
            if len(self._heard) > 4 * self._most:  # most of them have long gone
                self._heard.clear()
            return
        found = dict(_connections(map(int, numbers), self._port))
        for unseen in set(self._heard).difference(found):
            if self._heard[unseen] < now:  # else it has come during this look
                del self._heard[unseen]
        self._seen = {peer: self._seen.get(peer, now) for peer in found}
        order = {peer: (self._heard.get(peer, 0.0), since) for peer, since in self._seen.items()}
        waiting = sorted(set(found).difference(self._busy), key=order.__getitem__)
        surplus = surplus_of(waiting, self._most, self._exempt)
        ended = sum(_end(found[peer], peer) for peer in surplus if now - self._seen[peer] >= GRACE)
        if ended:
            log.warning("waiting-connections-ended", ended=ended, address=surplus[0][0])


def surplus_of(waiting: Iterable[Peer], most: int, exempt: Networks) -> list[Peer]:
    """The first connections of each address that has more than `most`."""
    shares: dict[str, list[Peer]] = defaultdict(list)
    for peer in waiting:
        shares[peer[0]].append(peer)
    groups: dict[object, list[Peer]] = defaultdict(list)
    for host, peers in shares.items():
        address = ip_address(host)
        if isinstance(address, IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        if not any(address in network for network in exempt):
            # A provider gives each customer at least that much of IPv6.
            share = ip_network((address, 64), strict=False) if isinstance(address, IPv6Address) else address
            groups[share] += peers
    return [peer for peers in groups.values() for peer in peers[: max(0, len(peers) - most)]]


def _connections(numbers: Iterable[int], port: int) -> Iterable[tuple[Peer, int]]:
    """The sockets among our descriptors that came in by this port, by their other end."""
    for number in numbers:
        try:
            # Of this family because its addresses are the longest; what the socket really is does not matter.
            looked_at = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, number)
        except OSError:
            continue
        try:
            if looked_at.getsockname()[1] == port:
                yield _peer(looked_at), number
        except (OSError, IndexError, TypeError):
            continue  # no socket, one that listens, or one that has just ended
        finally:
            looked_at.detach()


def _peer(connection: socket.socket) -> Peer:
    host, port = connection.getpeername()[:2]
    return host.partition("%")[0], port


def _end(number: int, peer: Peer) -> bool:
    """End this connection, if it still has that number: the server closes and accepts all the time."""
    with suppress(OSError), socket.socket(fileno=os.dup(number)) as held:
        if _peer(held) == peer:
            held.shutdown(socket.SHUT_RDWR)
            return True
    return False
