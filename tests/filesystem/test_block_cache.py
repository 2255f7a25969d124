"""What is fetched, and what is cached."""

import random

from portico.filesystem.block_cache import BlockCache

CONTENT = random.Random(1).randbytes(1000)


class Source:
    def __init__(self, **options: int) -> None:
        self.asked: list[tuple[int, int]] = []
        self.cache = BlockCache(10, self._fetch, len(CONTENT), **options)

    def _fetch(self, start: int, stop: int) -> bytes:
        self.asked.append((start, stop))
        return CONTENT[start:stop]

    def read(self, start: int | None, stop: int | None) -> bytes:
        return self.cache._fetch(start, stop)


def test_a_jump_fetches_the_blocks_that_it_needs() -> None:
    source = Source()
    assert source.read(995, 1000) == CONTENT[995:]
    assert source.read(234, 251) == CONTENT[234:251]
    assert source.asked == [(990, 1000), (230, 260)]


def test_what_was_fetched_is_not_fetched_again() -> None:
    source = Source()
    source.read(300, 320)
    assert source.read(305, 319) == CONTENT[305:319]
    assert source.read(315, 335) == CONTENT[315:335]
    assert source.asked == [(300, 320), (320, 340)]


def test_a_file_that_is_read_in_order_is_read_ahead_further_each_time() -> None:
    source = Source()
    for start in range(0, 1000, 7):
        assert source.read(start, start + 7) == CONTENT[start : start + 7]
    assert source.asked[:4] == [(0, 10), (10, 30), (30, 60), (60, 110)]
    assert len(source.asked) < 10


def test_large_reads_are_fetched_as_they_are() -> None:
    source = Source()
    assert source.read(3, 903) == CONTENT[3:903]
    assert source.asked == [(3, 903)]


def test_ends_are_cut_off_as_slices_are() -> None:
    source = Source()
    assert source.read(990, 2000) == CONTENT[990:]
    assert source.read(1000, 1010) == b""
    assert source.read(20, 20) == b""
    assert source.read(None, None) == CONTENT


def test_only_so_much_is_kept() -> None:
    source = Source(kept=50)
    for start in range(0, 1000, 20):
        source.read(start, start + 1)
    assert len(source.cache._blocks) == 5
    source.read(0, 1)
    assert source.asked[-1] == (0, 10)


def test_any_reads_give_what_the_file_holds() -> None:
    source, dice = Source(kept=80), random.Random(2)
    position = 0
    for _ in range(2000):
        position = dice.choice([position, dice.randrange(1000)])
        stop = position + dice.randrange(60)
        assert source.read(position, stop) == CONTENT[position:stop]
        position = min(stop, 1000)
