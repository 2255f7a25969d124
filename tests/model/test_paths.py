from urllib.parse import quote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from portico.model.errors import InvalidPath
from portico.model.paths import RESERVED_PREFIX, Path, flawless_names, name_flaw

untimed = settings(deadline=None)

names = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="/\\"), min_size=1).filter(
    lambda name: name not in (".", "..") and not name.casefold().startswith(RESERVED_PREFIX)
)
paths = st.lists(names, max_size=5).map(lambda segments: Path(tuple(segments)))

BAD = {
    "dot-dot": b"..",
    "dot": b".",
    "dot-dot-first": b"../a",
    "dot-dot-inside": b"a/../b",
    "dot-dot-last": b"a/..",
    "dot-inside": b"a/./b",
    "dot-slash": b"./",
    "escaped-dot-dot": b"%2e%2e",
    "half-escaped-dot-dot": b"%2E.",
    "escaped-slash-after-dot-dot": b"..%2f",
    "escaped-slash-and-dot-dot": b"a%2f..%2fb",
    "escaped-backslash-after-dot-dot": b"..%5c",
    "backslash": b"a\\b",
    "escaped-backslash": b"a%5Cb",
    "nul": b"a%00b",
    "raw-nul": b"a\0b",
    "nul-alone": b"%00",
    "carriage-return": b"a%0db",
    "line-feed": b"a%0A",
    "tab": b"%09a",
    "delete": b"a%7f",
    "c1-control": b"a%c2%85",
    "overlong-dot": b"%c0%ae%c0%ae",
    "overlong-slash": b"a%c0%afb",
    "overlong-of-three": b"%e0%80%af",
    "surrogate": b"%ed%a0%80",
    "beyond-unicode": b"%f4%90%80%80",
    "lone-byte": b"a%ff",
    "raw-lone-byte": b"a\xff",
    "cut-sequence": b"%e2%82",
    "empty-segment": b"a//b",
    "escaped-empty-segment": b"a%2f/b",
    "two-leading-slashes": b"//a",
    "absolute": b"/etc/passwd",
    "escaped-absolute": b"%2fetc/passwd",
    "slash": b"/",
    "two-slashes": b"//",
    "two-trailing-slashes": b"a//",
    "bare-percent": b"100%",
    "half-escape": b"%2",
    "no-escape": b"%zz",
    "escape-of-non-ascii-digits": b"%\xd9\xa0\xd9\xa0",
    "staging": b".portico~staging",
    "staging-below": b".portico~staging/0123",
    "staging-inside": b"a/.portico~probe-1",
    "escaped-staging": b"%2eportico%7Estaging",
    "staging-in-upper-case": b".PORTICO~STAGING",
    "volume-in-mixed-case": b"a/.Portico~volume",
}
LITERAL = {
    b"": (),
    b"a": ("a",),
    b"a/": ("a",),
    b"a%2Fb": ("a", "b"),
    b"a%2f": ("a",),
    b"%252e%252e": ("%2e%2e",),
    b"a%252Fb": ("a%2Fb",),
    b"%ef%bc%8e%ef%bc%8e": ("．．",),
    b"%E2%80%A5": ("‥",),
    b"C:/x": ("C:", "x"),
    b"a+b%20c": ("a+b c",),
    b"...": ("...",),
    b"..a/a..": ("..a", "a.."),
    b"%F0%9F%98%80": ("😀",),
    b".portico": (".portico",),
    b"~": ("~",),
    b"a" * 300: ("a" * 300,),
}


@pytest.mark.parametrize("raw", BAD.values(), ids=BAD)
def test_a_bad_path_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidPath):
        Path.from_request(raw)


@pytest.mark.parametrize("raw", LITERAL, ids=range(len(LITERAL)))
def test_what_only_looks_dangerous_is_a_name(raw: bytes) -> None:
    assert Path.from_request(raw).segments == LITERAL[raw]


@untimed
@given(paths)
def test_every_path_survives_a_request(path: Path) -> None:
    raw = quote("/".join(path.segments), safe="/").encode()
    assert Path.from_request(raw) == path
    everything_escaped = "".join(f"%{byte:02x}" for byte in "/".join(path.segments).encode())
    assert Path.from_request(everything_escaped.encode()) == path


@untimed
@given(paths)
def test_every_path_is_read_back_from_its_text(path: Path) -> None:
    assert Path.parse(str(path)) == path
    assert Path.parse(str(path).removeprefix("/")) == path
    assert Path.parse(f"/{path}".replace("//", "/") + ("" if path.is_root else "/")) == path


@untimed
@given(st.binary(max_size=40) | st.lists(st.sampled_from([*BAD.values(), b"/", b"a"]), max_size=4).map(b"".join))
def test_whatever_comes_in_no_segment_is_unsafe(raw: bytes) -> None:
    try:
        path = Path.from_request(raw)
    except InvalidPath:
        return
    for segment in path.segments:
        assert segment not in ("", ".", "..")
        assert not set(segment) & {"/", "\\", "\0", "\n", "\r", "\x7f", "\x85"}
        assert not segment.casefold().startswith(RESERVED_PREFIX)
        assert segment.encode()


@untimed
@given(st.text(max_size=12))
def test_a_child_is_as_safe_as_a_parsed_path(name: str) -> None:
    assume("/" not in name)
    parsed: Path | None
    child: Path | None
    try:
        parsed = Path.parse(f"a/{name}") if name else None
    except InvalidPath:
        parsed = None
    try:
        child = Path(("a",)).child(name)
    except InvalidPath:
        child = None
    assert parsed == child


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\\b", "\0", "\x1f", "\x7f", "\x9f", "\ud800", ".portico~x", ".pOrTiCo~X"]
)
def test_a_bad_name_has_a_flaw(name: str) -> None:
    flaw = name_flaw(name)
    assert flaw
    with pytest.raises(InvalidPath, match="choose another name"):
        Path().child(name)


@untimed
@given(paths, names)
def test_family(path: Path, name: str) -> None:
    child = path.child(name)
    assert (child.name, child.parent) == (name, path)
    assert path.holds(path)
    assert path.holds(child)
    assert not child.holds(path)
    assert not child.is_root


@untimed
@given(paths, paths)
def test_a_path_under_a_root_stays_there(path: Path, root: Path) -> None:
    below = path.under(root)
    assert root.holds(below)
    assert below.segments[len(root.segments) :] == path.segments


def test_a_name_that_begins_alike_is_not_held() -> None:
    assert not Path(("al",)).holds(Path(("alice",)))
    assert not Path(("al",)).holds(Path(("alice", "al")))
    assert not Path(("a", "b")).holds(Path(("a",)))


def test_the_root() -> None:
    for text in ("", "/"):
        path = Path.parse(text)
        assert path.is_root
        assert (path.name, str(path), path.parent) == ("/", "/", path)


@pytest.mark.parametrize("text", ["//", "///", "a//", "//a", "a//b", "/.", "/..", " /../"])
def test_bad_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidPath):
        Path.parse(text)


@given(st.lists(st.text(), max_size=5))
def test_names_that_look_flawless_are(names: list[str]) -> None:
    if flawless_names(names):
        assert all(name_flaw(name) is None for name in names)


@pytest.mark.parametrize("name", ["plain.txt", "Übergröße", "日本語", "a b", "x.", "a~"])
def test_usual_names_look_flawless(name: str) -> None:
    assert flawless_names(["a", name, "b"])
