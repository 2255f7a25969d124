import pathlib
from collections.abc import AsyncIterator, Callable

import pytest

from portico.store.idempotency import RequestClaim
from tests.servers.lent_databases import LentDatabases

from ..conftest import OpenGateway, _populate, settings_of
from ..gateways import Gateway, running


@pytest.fixture(params=["sqlite", "postgresql"])
async def gateway(
    request: pytest.FixtureRequest, open_gateway: OpenGateway, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Gateway]:
    if request.param == "sqlite":
        yield await open_gateway()
        return
    lent: LentDatabases = request.getfixturevalue("lent_databases")
    with lent.one() as url:
        chosen = settings_of(tmp_path / "home", **{"database.url": url})
        (chosen.files_folder / "web").mkdir(parents=True)
        await _populate(chosen)
        async with running(chosen) as gateway:
            yield gateway


@pytest.fixture
async def sqlite_gateway(open_gateway: OpenGateway) -> Gateway:
    return await open_gateway()


@pytest.fixture
def crash(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on, or until it is called again, the process ends before an answer is noted."""
    answer = RequestClaim.answer

    async def end(claim: RequestClaim, _: bytes) -> None:
        await claim.let_go()
        await claim.change(owned_until=0)

    def switch() -> None:
        monkeypatch.setattr(RequestClaim, "answer", end if RequestClaim.answer is answer else answer)

    return switch
