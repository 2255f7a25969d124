"""Every bad input over a raw connection to a real gateway: its status and code, nothing stored, no trace, no 500."""

import asyncio
from collections.abc import Iterator

import pytest

from ..gateways import FILES
from .bad_inputs import GAPS, HALF_STORED, NOTHING_STORED, Bad, Stranger
from .checks.floods import credentials
from .processes import TunedGateway
from .raw_http import Answer, ask, form, get, head, post

KEPT = {"folder", "kept"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TunedGateway]:
    gateway = TunedGateway(tmp_path_factory.mktemp("bad") / "home")
    gateway.begin()
    yield gateway
    gateway.kill()


@pytest.fixture(scope="module")
def stranger(gateway: TunedGateway) -> Stranger:
    async def prepare() -> Stranger:
        assert await gateway.put("kept", b"old") == 204
        for name in ("one", "two"):
            assert await gateway.put(name, b"", "/folder") == 204
        page = (await gateway.get("/folder?size=1")).json()
        ended = gateway.login()["access_token"]
        assert (await gateway.ask(head("POST", "/backend/logout", ended))).status == 204
        return Stranger(gateway.token, ended, credentials(gateway)[0], page["nextCursor"])

    return asyncio.run(prepare())


async def tried(gateway: TunedGateway, stranger: Stranger, bad: Bad) -> Answer:
    """The answer; whatever it is, the gateway is well afterwards and has leaked no secret."""
    answer = await ask(gateway.port, bad.request(stranger))
    assert answer.status != 500
    assert b"Traceback" not in answer.body
    assert str(gateway.home).encode() not in answer.body
    assert (await ask(gateway.port, get("/healthz"))).status == 200
    assert gateway.staged == []
    assert (gateway.files / "web" / "kept").read_bytes() == b"old"
    return answer


CASES = [
    pytest.param(bad, id=f"{group}-{name}") for group, bads in NOTHING_STORED.items() for name, bad in bads.items()
]


@pytest.mark.parametrize("bad", CASES)
async def test_bad_input(gateway: TunedGateway, stranger: Stranger, bad: Bad) -> None:
    answer = await tried(gateway, stranger, bad)
    assert (answer.status, answer.code) == (bad.status, bad.code)
    assert {path.name for path in (gateway.files / "web").iterdir()} == KEPT


@pytest.mark.parametrize("bad", HALF_STORED.values(), ids=HALF_STORED)
async def test_bad_input_after_a_whole_file(gateway: TunedGateway, stranger: Stranger, bad: Bad) -> None:
    answer = await tried(gateway, stranger, bad)
    assert (answer.status, answer.code) == (bad.status, bad.code)
    stored = {path.name for path in (gateway.files / "web").iterdir()} - KEPT
    assert set(answer.json()["stored"]) == stored
    for name in stored:
        (gateway.files / "web" / name).unlink()


@pytest.mark.parametrize(
    "bad",
    [pytest.param(bad, id=name, marks=pytest.mark.xfail(strict=True, reason=why)) for name, (bad, why) in GAPS.items()],
)
async def test_known_gap(gateway: TunedGateway, stranger: Stranger, bad: Bad) -> None:
    answer = await tried(gateway, stranger, bad)
    (gateway.files / "web" / "a").unlink(missing_ok=True)
    assert (answer.status, answer.code) == (bad.status, bad.code)


async def test_a_length_beyond_the_body(gateway: TunedGateway, stranger: Stranger) -> None:
    """The file had ended, so it is stored; the request had not, so it fails."""
    wire = await gateway.wire()
    await wire.send(post(stranger.token, form("a", b"x")).replace(b"Content-Length: ", b"Content-Length: 1", 1))
    wire.half_close()
    answer = await wire.answer()
    assert (answer.status, answer.code, answer.json()["stored"]) == (400, "invalid-request", ["a"])
    await wire.close()
    (gateway.files / "web" / "a").unlink()


async def test_a_length_within_the_body(gateway: TunedGateway, stranger: Stranger) -> None:
    """What is left is no request, even where one is hidden behind it."""
    body = form("a", b"x" * 100)
    whole = post(stranger.token, body).replace(b"Length: %d" % len(body), b"Length: %d" % (len(body) - 20), 1)
    wire = await gateway.wire()
    await wire.send(whole + head("DELETE", f"{FILES}/kept", stranger.token))
    answer = await wire.answer()
    assert (answer.status, answer.code) == (400, "invalid-request")
    assert (await wire.answer()).status == 400
    await wire.close()
    assert {path.name for path in (gateway.files / "web").iterdir()} == KEPT


async def test_ten_thousand_ranges_are_one_file(gateway: TunedGateway, stranger: Stranger) -> None:
    ranges = "Range: bytes=" + ",".join("0-0" for _ in range(10_000))
    answer = await ask(gateway.port, get(f"{FILES}/kept", stranger.token, ranges))
    assert (answer.status, answer.body) == (200, b"old")


async def test_nested_multipart_is_opaque(gateway: TunedGateway, stranger: Stranger) -> None:
    inner = form("inner", b"x").replace(b"--b", b"--c")
    assert await gateway.put("nested", inner) == 204
    file = gateway.files / "web" / "nested"
    assert file.read_bytes() == inner
    file.unlink()


def test_the_log_knows_of_no_bug(gateway: TunedGateway) -> None:
    """Runs last of this file: after all that, nothing was a surprise."""
    assert "Traceback" not in gateway.output
    assert '"event":"bug"' not in gateway.output
