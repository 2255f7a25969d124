import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from portico.api.multipart import MultipartReader
from portico.model.errors import PorticoError

from .gateways import BOUNDARY, MULTIPART, form, named, part

Outcome = tuple[list[tuple[str, bytes]], str | None]
"""The files whose end was seen, and the code of the error that came then."""


async def _outcome(chunks: Iterable[bytes], content_type: str, max_files: int) -> Outcome:
    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            if chunk:
                yield chunk

    files: list[tuple[str, bytes]] = []
    try:
        reader = MultipartReader(body(), content_type, max_files=max_files)
        while found := await reader.next_file():
            content = b"".join([chunk async for chunk in found.chunks])
            files.append((found.filename, content))
    except PorticoError as error:
        return files, error.code
    return files, None


def read(chunks: Iterable[bytes], content_type: str = MULTIPART, max_files: int = 1000) -> Outcome:
    return asyncio.run(_outcome(chunks, content_type, max_files))


def cut(body: bytes, places: Iterable[int]) -> list[bytes]:
    ends = sorted({place % (len(body) + 1) for place in places} | {0, len(body)})
    return [body[start:stop] for start, stop in pairwise(ends)]


fragments = st.sampled_from(
    [
        *(b"\r", b"\n", b"\r\n", b"--", b"-", b"x", b"\0", b"frontier", b"--frontier", b"--frontier--"),
        *(b"\r\n--frontie", b"\r\n--frontiex", b"\r\r\n--frontier", b"\n--frontier", b"\r\n--frontier"),
        *(b"\r\n--frontier\r", b"\r\n--frontier-", b"Content-Disposition: form-data", b" " * 20),
    ]
)
hostile = st.lists(fragments, max_size=8).map(b"".join)
contents = hostile | st.binary(max_size=64)
names = st.text("abcü \"%.;'", min_size=1, max_size=8).map(lambda text: text.replace('"', "%22"))
parts = st.builds(named, names, contents) | st.builds(part, contents) | hostile
bodies = st.tuples(hostile, st.lists(parts, max_size=4), st.sampled_from([form(), b""]), hostile).map(
    lambda pieces: pieces[0] + b"".join(pieces[1]) + pieces[2] + pieces[3]
)
places = st.lists(st.integers(0, 2**16), max_size=12)


@given(bodies, places)
@example(form(named("a", b"\r\n--frontie")), list(range(200)))
@example(b"--frontierx\r\n" + form(named("a")), [10])
@example(b"\r\n" + form(named("a")), [1])
def test_the_way_a_body_is_cut_changes_nothing(body: bytes, places: list[int]) -> None:
    assert read(cut(body, places)) == read([body])


def test_a_preamble_is_searched_once_whatever_its_chunks() -> None:
    """Eight times the preamble, byte by byte, costs about eight times as much, not sixty-four times."""

    def cost(size: int) -> float:
        costs = []
        for _ in range(3):
            began = time.process_time()
            assert read(cut(b"\r\n--" * (size // 4), range(size)))[1] == "invalid-request"
            costs.append(time.process_time() - began)
        return min(costs)

    assert cost(56 * 1024) < 18 * cost(7 * 1024)


@given(st.lists(contents, max_size=4), places)
def test_bytes_in_are_bytes_out(files: list[bytes], places: list[int]) -> None:
    files = [content for content in files if b"\r\n--frontier" not in b"\r\n" + content]
    body = form(*(named(f"{number}", content) for number, content in enumerate(files)))
    expected = [(f"{number}", content) for number, content in enumerate(files)]
    assert read(cut(body, places)) == (expected, None)


@given(st.lists(contents, min_size=1, max_size=3), st.integers(0), places)
def test_a_body_that_is_cut_short_is_never_whole(files: list[bytes], end: int, places: list[int]) -> None:
    files = [content.replace(b"frontier", b"") for content in files]
    body = form(*(named(f"{number}", content) for number, content in enumerate(files)))
    closed = len(body) - len(b"\r\n")
    found, error = read(cut(body[: end % closed], places))
    assert error == "invalid-request"
    assert found == [(f"{number}", content) for number, content in enumerate(files)][: len(found)]


def test_every_byte_by_itself() -> None:
    body = form(named("a", b"\r\n--frontie\r\n-"), named("b", b""))
    assert read([bytes([byte]) for byte in body]) == ([("a", b"\r\n--frontie\r\n-"), ("b", b"")], None)


# Boundaries


@pytest.mark.parametrize("boundary", ["b", "0", "--", "----WebKitFormBoundaryAbC", "b" * 70, "'()+_,-./:=?", "a b"])
def test_an_odd_boundary_is_read(boundary: str) -> None:
    body = form(named("a", b"--\r\n--" + boundary.encode()[:-1])).replace(BOUNDARY.encode(), boundary.encode())
    content_type = f'multipart/form-data; boundary="{boundary}"'
    expected = [("a", b"--\r\n--" + boundary.encode()[:-1])], None
    assert read([body], content_type) == expected
    assert read([bytes([byte]) for byte in body], content_type) == expected


@pytest.mark.parametrize(
    "content_type",
    [
        f"Multipart/Form-Data; Boundary={BOUNDARY}",
        f"multipart/form-data;boundary={BOUNDARY}",
        f"multipart/form-data; charset=utf-8; boundary={BOUNDARY}",
        f'multipart/form-data ; boundary="{BOUNDARY}" ;',
    ],
)
def test_a_content_type_is_read(content_type: str) -> None:
    assert read([form(named("a"))], content_type) == ([("a", b"content")], None)


@pytest.mark.parametrize(
    "content", [b"x--frontier", b"x--frontier--\r\n", b"\n--frontier\n", b"\r--frontier--\r", b"--frontie\r\n--frontie"]
)
def test_what_nearly_is_a_boundary_is_content(content: bytes) -> None:
    assert read([form(named("a", content))]) == ([("a", content)], None)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (form(named("a", b"x\r\n--frontiers")), ([], "invalid-request")),
        (form(named("a", b"x\r\n--frontier \r\n")), ([], "invalid-request")),
        (form(named("a")).replace(b"\r\n", b"\n"), ([], "invalid-request")),
        (form(named("a")).replace(b"--frontier--", b"--frontier-"), ([], "invalid-request")),
        (form(named("a"))[:-4], ([], "invalid-request")),
        (b"-" + form(named("a")), ([], "invalid-request")),
        (b"preamble\r\n" + form(named("a")), ([("a", b"content")], None)),
        (b"preamble\n" + form(named("a")), ([], "invalid-request")),
        (form(), ([], None)),
    ],
)
def test_only_a_whole_boundary_counts(body: bytes, expected: Outcome) -> None:
    assert read([body]) == expected


def test_a_nested_form_is_bytes_like_any_other() -> None:
    inner = form(named("inner", b"secret")).replace(BOUNDARY.encode(), b"inside")
    body = form(part(inner, 'form-data; name="data"; filename="a"', "Content-Type: multipart/mixed; boundary=inside"))
    assert read([body]) == ([("a", inner)], None)


# Limits


def pieces(body: bytes, size: int = 2**14) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


@pytest.mark.parametrize("size", [1, 1000, 2**14, 2**20])
@pytest.mark.parametrize(("length", "error"), [(0, None), (2**16 - 2, None), (2**16 + 1, "invalid-request")])
def test_a_preamble_has_a_limit(size: int, length: int, error: str | None) -> None:
    body = b"x" * length + (b"\r\n" if length else b"") + form(named("a"))
    assert read(pieces(body, max(size, 100)))[1] == error


def test_a_huge_preamble_is_not_read_to_its_end() -> None:
    taken = 0

    def endless() -> Iterable[bytes]:
        nonlocal taken
        while True:
            taken += 2**14
            yield b"x" * 2**14

    assert read(endless()) == ([], "invalid-request")
    assert taken < 2**20


def test_a_huge_epilogue_is_not_read_to_its_end() -> None:
    taken = 0

    def endless() -> Iterable[bytes]:
        nonlocal taken
        yield form(named("a"))
        while True:
            taken += 2**14
            yield b"x" * 2**14

    assert read(endless()) == ([("a", b"content")], "invalid-request")
    assert taken < 2**20


def test_a_small_epilogue_does_not_matter() -> None:
    assert read([form(named("a")), b"\r\n", b"goodbye" * 1000]) == ([("a", b"content")], None)


@pytest.mark.parametrize("size", [64, 2**20])
@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([f"X-{number}: y" for number in range(15)], None),
        ([f"X-{number}: y" for number in range(16)], "invalid-request"),
        ([f"X-{number}: y" for number in range(10_000)], "invalid-request"),
        ([f"X-{number}: {'y' * 8000}" for number in range(15)], None),
        (["X: " + "y" * 8191], None),
        (["X: " + "y" * 8192], "invalid-request"),
        (["X: " + "y" * 2**20], "invalid-request"),
        (["X: y", "X: y"], "invalid-request"),
        (["X: y", "x: y"], "invalid-request"),
        (["Content-Type: text/plain", "content-type: text/html"], "invalid-request"),
        (["X"], "invalid-request"),
        (["X y: z"], "invalid-request"),
        ([": z"], "invalid-request"),
        (["X: a\x00b"], "invalid-request"),
        (["X: a\rb"], "invalid-request"),
        (["Content-Length: 7"], None),
        (["Content-Length: 6"], "invalid-request"),
        (["Content-Length: 8"], "invalid-request"),
    ],
)
def test_the_headers_of_a_part(size: int, lines: list[str], error: str | None) -> None:
    body = form(part(b"content", 'form-data; name="data"; filename="a"', *lines))
    assert read(pieces(body, size)) == ([] if error else [("a", b"content")], error)


def test_a_part_without_headers_is_refused() -> None:
    assert read([b"--frontier\r\n\r\nx\r\n--frontier--\r\n"]) == ([], "invalid-request")


def test_too_many_parts_are_refused_early() -> None:
    made = 0

    def endless() -> Iterable[bytes]:
        nonlocal made
        while True:
            made += 1
            yield named(f"{made}", b"")

    found, error = read(endless(), max_files=50)
    assert (len(found), error) == (50, "too-large")
    assert made < 60


@pytest.mark.parametrize("content", [b"\r" * 2**20, b"\r\n" * 2**19, b"\r\n--" * 2**18, b"\r\n--frontie" * 2**16])
def test_a_mass_of_what_could_begin_a_boundary(content: bytes) -> None:
    body = form(named("a", content))
    for size in (2**10, 2**14 + 1, 2**21):
        assert read(pieces(body, size)) == ([("a", content)], None)


@pytest.mark.parametrize("header", [b"Content-Disposition\n: form-data", b"\nContent-Disposition: form-data"])
def test_a_bare_line_feed_in_a_header_is_refused_wherever_the_body_is_cut(header: bytes) -> None:
    body = b"--frontier\r\n" + header + b'; name="data"; filename="a"\r\n\r\nx\r\n--frontier--\r\n'
    for place in range(len(body)):
        assert read([body[:place], body[place:]]) == ([], "invalid-request")
