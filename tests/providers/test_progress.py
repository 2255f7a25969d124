"""Walks end where a service goes in circles, and only there."""

import pytest

from portico.model.errors import ProviderFailed
from portico.providers.wire.responses import MAX_EMPTY_PAGES, MAX_REPEATED_PAGES, Progress


def test_tokens_that_alternate_end_a_walk() -> None:
    progress = Progress()
    progress.page(["a"], "one")
    progress.page(["b"], "two")
    with pytest.raises(ProviderFailed):
        progress.page(["c"], "one")


def test_entries_that_repeat_under_fresh_tokens_end_a_walk() -> None:
    progress = Progress()
    for number in range(MAX_REPEATED_PAGES + 1):  # the first time, and once more until it is remembered
        progress.page(["a", "b"], str(number))
    with pytest.raises(ProviderFailed):
        progress.page(["a", "b"], "one too many")


def test_pages_that_repeat_in_turns_end_a_walk() -> None:
    progress = Progress()
    for number in range(3 + MAX_REPEATED_PAGES - 1):
        progress.page(["a"] if number % 2 else ["b"], str(number))
    with pytest.raises(ProviderFailed):
        progress.page(["a"], "one too many")


def test_empty_pages_end_a_walk_only_if_there_is_no_end_to_them() -> None:
    progress = Progress()
    for number in range(MAX_EMPTY_PAGES):
        progress.page([], f"empty-{number}")
    progress.page(["a"], "at last")
    for number in range(MAX_EMPTY_PAGES):
        progress.page([], f"empty-again-{number}")
    with pytest.raises(ProviderFailed):
        progress.page([], "one too many")


def test_services_without_an_order_are_walked_to_the_end() -> None:
    progress = Progress()
    for number in range(1000, 0, -1):
        progress.page([f"{number:04}"], str(number))
    progress.page(["0000"], None)


def test_memory_does_not_grow_with_what_comes_in_order() -> None:
    progress = Progress()
    for number in range(1000):
        progress.page([f"{number:04}"], str(number))
    assert not progress._out_of_order
