from collections.abc import AsyncGenerator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portico.model.entries import UNKNOWN_TYPE, Download, Entry, Page, guess_content_type, guess_content_types

untimed = settings(deadline=None)

TYPES = {
    "a.txt": "text/plain",
    "A.TXT": "text/plain",
    "a.b.pdf": "application/pdf",
    "page.html": "text/html",
    "data.json": "application/json",
    "data.csv": "text/csv",
    "photo.JPEG": "image/jpeg",
    "photo.webp": "image/webp",
    "notes.md": "text/markdown",
    "a.yml": "application/yaml",
    "a.7z": "application/x-7z-compressed",
    "film.m4v": "video/mp4",
    "song.flac": "audio/flac",
    "a.parquet": "application/vnd.apache.parquet",
    "backup.tar.gz": "application/gzip",
    "a.gz": "application/gzip",
    "a.tgz": "application/gzip",
    "a.svgz": "application/gzip",
    "a.bz2": UNKNOWN_TYPE,
    "plain": UNKNOWN_TYPE,
    "": UNKNOWN_TYPE,
    "a.": UNKNOWN_TYPE,
    "a.unheard-of": UNKNOWN_TYPE,
    "a." + "x" * 300: UNKNOWN_TYPE,
    "a.txt ": UNKNOWN_TYPE,
    "a.tx\u202et": UNKNOWN_TYPE,
}


def test_many_names_suggest_a_type_each() -> None:
    assert guess_content_types(list(TYPES)) == list(TYPES.values())


@pytest.mark.parametrize("name", TYPES, ids=range(len(TYPES)))
def test_a_name_suggests_a_type(name: str) -> None:
    assert guess_content_type(name) == TYPES[name]


@untimed
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.sampled_from(["", ".", ".txt", ".GZ"]))
def test_any_name_gets_one_plain_type(stem: str, suffix: str) -> None:
    kind = guess_content_type(stem + suffix)
    assert kind.isascii()
    assert kind.count("/") == 1
    assert not set(kind) & set(" \r\n;,")


async def test_a_download_does_not_show_its_content() -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        yield b"secret"

    download = Download(Entry("a", False, 6), 0, 6, chunks())
    assert "chunks" not in repr(download)
    await download.chunks.aclose()


def test_entries_and_pages_are_compared_by_value() -> None:
    assert Page([Entry("a", False, 1)], "t") == Page([Entry("a", False, 1)], "t")
    assert Page([Entry("a", False, 1)]) != Page([Entry("a", False, 2)])
