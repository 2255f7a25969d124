import pytest

from portico.client import NotAGateway, Unreachable
from portico.client.http.effects import Request
from portico.client.http.http11 import Chunked, Head, UntilClose, request_head
from portico.client.http.origin import Origin

CHUNKED = b"5;extension\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\n"


@pytest.mark.parametrize("cut", range(len(CHUNKED)))
def test_a_chunked_answer_is_read_however_it_is_cut(cut: int) -> None:
    framing = Chunked()
    pieces = framing.feed(CHUNKED[:cut])
    assert not framing.done
    pieces += framing.feed(CHUNKED[cut:])
    assert b"".join(pieces) == b"hello!"
    assert framing.done


@pytest.mark.parametrize("rubbish", [b"x\r\n", b"-1\r\n", b"z" * 70_000])
def test_a_chunked_answer_that_is_none(rubbish: bytes) -> None:
    with pytest.raises(NotAGateway):
        Chunked().feed(rubbish)


@pytest.mark.parametrize("block", [b"", b"SSH-2.0-OpenSSH", b"HTTP/1.1 abc", b"HTTP/2 200"])
def test_a_head_that_is_none(block: bytes) -> None:
    with pytest.raises(NotAGateway):
        Head.of(block)


def test_which_connections_are_kept() -> None:
    assert Head.of(b"HTTP/1.1 200 OK\r\nContent-Length: 0").keep_alive
    assert not Head.of(b"HTTP/1.1 200 OK\r\nConnection: Close").keep_alive
    assert not Head.of(b"HTTP/1.0 200 OK").keep_alive
    head = Head.of(b"HTTP/1.1 200 OK")
    assert isinstance(head.framing("GET"), UntilClose)
    assert not head.keep_alive


def test_a_length_that_is_none() -> None:
    with pytest.raises(NotAGateway):
        Head.of(b"HTTP/1.1 200 OK\r\nContent-Length: 1_0").framing("GET")


@pytest.mark.parametrize(
    ("url", "authority", "prefix"),
    [
        ("https://files.example.com", "files.example.com", ""),
        ("files.example.com", "files.example.com", ""),
        ("http://[::1]:8080/", "[::1]:8080", ""),
        ("https://example.com:443/gateway/", "example.com", "/gateway"),
    ],
)
def test_addresses(url: str, authority: str, prefix: str) -> None:
    origin = Origin.of(url, None)
    assert (origin.authority, origin.prefix) == (authority, prefix)
    head = request_head(Request("GET", "/x"), origin)
    assert head.startswith(f"GET {prefix}/x HTTP/1.1\r\nHost: {authority}\r\n".encode())


@pytest.mark.parametrize("url", ["", "ftp://x", "https://", "https://a:b", "https://u:p@host", "https://h/?q"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(Unreachable):
        Origin.of(url, None)
