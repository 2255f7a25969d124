from ipaddress import ip_network

import pytest

from portico.server.idle_connections import surplus_of


def peers(host: str, *ports: int) -> list[tuple[str, int]]:
    return [(host, port) for port in ports]


@pytest.mark.parametrize(
    ("waiting", "surplus"),
    [
        ([], []),
        (peers("192.0.2.1", 1, 2), []),
        (peers("192.0.2.1", 5, 4, 3, 2), peers("192.0.2.1", 5, 4)),
        (peers("192.0.2.1", 1, 2, 3) + peers("192.0.2.2", 4, 5), peers("192.0.2.1", 1)),
        (peers("::ffff:192.0.2.1", 1, 2) + peers("192.0.2.1", 3), peers("::ffff:192.0.2.1", 1)),
        (peers("2001:db8::1", 1) + peers("2001:db8::2", 2) + peers("2001:db8::3", 3), peers("2001:db8::1", 1)),
        (peers("2001:db8::1", 1, 2) + peers("2001:db8:0:1::1", 3, 4), []),
        (peers("10.0.0.1", 1, 2, 3, 4), []),
        (peers("::ffff:10.0.0.1", 1, 2, 3, 4), []),
    ],
)
def test_an_address_keeps_its_last_connections(waiting: list[tuple[str, int]], surplus: list[tuple[str, int]]) -> None:
    """The /64 network of an IPv6 address counts as one; proxies have no limit."""
    assert surplus_of(waiting, 2, [ip_network("10.0.0.0/8")]) == surplus
