from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest

from portico.providers.local import LocalProvider
from portico.providers.local.gathering import GATHERING, LEAST, MOST, Gathering

from .actions import at


def test_the_more_uploads_the_less_each_gathers() -> None:
    gathering = Gathering(16 * MOST)
    assert gathering.enough == MOST
    with ExitStack() as uploads:
        seen = []
        for number in range(1, 1001):
            uploads.enter_context(gathering.upload())
            seen.append(gathering.enough)
            assert number * 2 * gathering.enough <= 16 * MOST or gathering.enough == LEAST
        assert seen == sorted(seen, reverse=True)
        assert (seen[7], seen[15], seen[-1]) == (MOST, MOST // 2, LEAST)
    assert gathering.enough == MOST


async def test_an_upload_counts_until_its_end_whatever_that_is(provider: LocalProvider) -> None:
    seen: list[int] = []

    async def chunks(*, broken: bool) -> AsyncIterator[bytes]:
        seen.append(GATHERING._uploads)
        yield b"x"
        if broken:
            raise ValueError("no more")

    await provider.write(at("whole"), chunks(broken=False), "text/plain")
    with pytest.raises(ValueError, match="no more"):
        await provider.write(at("broken"), chunks(broken=True), "text/plain")
    assert seen == [1, 1]
    assert GATHERING._uploads == 0
