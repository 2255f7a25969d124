"""What makes sense in an answer, and what does not."""

import pytest

from portico.model.errors import ProviderFailed
from portico.providers.wire.responses import MAX_FILE_SIZE, check_count, check_sizes, etag_of, size_of


@pytest.mark.parametrize("text", [None, "", "-5", "1e3", "１", "1_0", " 1", str(10**30), str(MAX_FILE_SIZE + 1)])
def test_sizes_that_no_file_has(text: str | None) -> None:
    with pytest.raises(ProviderFailed):
        size_of(text)


def test_sizes() -> None:
    assert [size_of(text) for text in ("0", "42", str(MAX_FILE_SIZE))] == [0, 42, MAX_FILE_SIZE]
    check_sizes([])
    check_sizes([0, MAX_FILE_SIZE])
    for size in (-1, MAX_FILE_SIZE + 1):
        with pytest.raises(ProviderFailed):
            check_sizes([1, size])


@pytest.mark.parametrize("text", ["é", "a\nb", "\udc80", "e" * 300])
def test_etags_that_no_header_can_hold(text: str) -> None:
    with pytest.raises(ProviderFailed):
        etag_of(text)


def test_etags() -> None:
    assert [etag_of(text) for text in (None, "", '""', '"0x8D"', "0x8D")] == [None, None, None, "0x8D", "0x8D"]


def test_a_page_may_be_as_full_as_was_asked_for() -> None:
    check_count(250, 250)
    with pytest.raises(ProviderFailed):
        check_count(251, 250)
