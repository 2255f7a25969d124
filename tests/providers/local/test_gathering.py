from contextlib import ExitStack

from portico.providers.local.gathering import LEAST, MOST, Gathering


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
