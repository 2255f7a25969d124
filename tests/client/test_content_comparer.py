"""Comparing remote with local files."""

from collections.abc import Iterator
from hashlib import md5
from pathlib import Path

import pytest

from portico.client import Client
from portico.client.transfers.content_comparer import Candidate, ContentComparer

from ..gateways import Gateway
from ..servers.proxy import Altered, Call, Cut, FaultProxy, Reply

CONTENT = bytes(range(256)) * 20_000


class Comparing(Client):
    def equal(self, candidate: Candidate, *, read: bool) -> dict[str, str | None]:
        return self._run(ContentComparer(self._session, 4, read=read).equal([candidate]))


@pytest.fixture
def comparing(gateway: Gateway, password: str, proxy: FaultProxy) -> Iterator[Comparing]:
    with Comparing(f"http://127.0.0.1:{proxy.port}", username="web", password=password) as client:
        client.login()
        proxy.calls.clear()
        yield client


@pytest.fixture
def candidate(root: Path, tmp_path: Path) -> Candidate:
    (root / "file").write_bytes(CONTENT)
    (tmp_path / "local").write_bytes(CONTENT)
    return Candidate("/file", str(tmp_path / "local"))


def with_etag(etag: str) -> Altered:
    return Altered(lambda reply: Reply(reply.status, {**dict(reply.headers), "ETag": etag}, reply.body))


def is_look(call: Call) -> bool:
    return call.method == "HEAD"


def methods(proxy: FaultProxy) -> list[str]:
    return [call.method for call in proxy.calls]


def test_a_digest_saves_the_reading(comparing: Comparing, candidate: Candidate, proxy: FaultProxy) -> None:
    etag = f'"{md5(CONTENT).hexdigest()}"'
    for read in (True, False):
        proxy.on(is_look, with_etag(etag))
        assert comparing.equal(candidate, read=read) == {"/file": etag}
    assert methods(proxy) == ["HEAD", "HEAD"]


@pytest.mark.parametrize("etag", [f'"{"0" * 32}"', f'"{"0" * 32}-3"', f'W/"{md5(CONTENT).hexdigest()}"'])
def test_an_etag_that_is_no_digest_of_it_proves_nothing(
    comparing: Comparing, candidate: Candidate, proxy: FaultProxy, etag: str
) -> None:
    proxy.on(is_look, with_etag(etag))
    assert comparing.equal(candidate, read=False) == {}
    assert methods(proxy) == ["HEAD"]


def test_without_a_digest_the_content_is_read(
    comparing: Comparing, candidate: Candidate, proxy: FaultProxy, root: Path
) -> None:
    assert list(comparing.equal(candidate, read=True)) == ["/file"]
    assert methods(proxy) == ["HEAD", "GET"]
    proxy.on(lambda call: call.method == "GET", Cut(100_000))
    assert list(comparing.equal(candidate, read=True)) == ["/file"]
    for other in (CONTENT[:-1] + b"x", b"x" + CONTENT[1:], CONTENT[:-1], CONTENT + b"x", b"x"):
        (root / "file").write_bytes(other)
        assert comparing.equal(candidate, read=True) == {}


def test_what_is_not_there_is_not_equal(comparing: Comparing, candidate: Candidate, root: Path) -> None:
    assert comparing.equal(Candidate("/none", candidate.local), read=True) == {}
    assert comparing.equal(Candidate("/file", candidate.local + "-none"), read=True) == {}
    (root / "folder").mkdir()
    assert comparing.equal(Candidate("/folder", candidate.local), read=True) == {}


def test_a_version_that_is_known(comparing: Comparing, candidate: Candidate, root: Path) -> None:
    etag = comparing.head("/file").etag
    known = Candidate("/file", candidate.local, etag)
    assert comparing.equal(known, read=False) == {"/file": etag}
    (root / "file").write_bytes(CONTENT)
    assert comparing.equal(known, read=False) == {}
