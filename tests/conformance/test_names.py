import unicodedata

import pytest

from portico.drive import Drive
from portico.errors import InvalidPath, NotFound
from portico.paths import Path

from .actions import at, content, names, put

ODD_NAMES = {
    "space": "a b",
    "leading-space": " a",
    "trailing-space": "a ",
    "plus": "a+b",
    "percent": "100%",
    "escaped-slash": "a%2Fb",
    "escaped-dots": "%2e%2e",
    "escaped-nul": "a%00b",
    "hash": "a#b",
    "question": "a?b=c",
    "ampersand": "a&b=c;d",
    "single-quote": "it's",
    "double-quote": 'a"b',
    "angle-brackets": "<img onerror=x>",
    "colon": "c:",
    "star-and-bar": "a*|b",
    "emoji": "👩‍👩‍👧",
    "composed": unicodedata.normalize("NFC", "é"),
    "decomposed": unicodedata.normalize("NFD", "é"),
    "right-to-left": "שלום.txt",
    "direction-override": "a\u202etxt.exe",
    "full-width-dots": "．．",
    "two-dots-and-more": "..a",
    "three-dots": "...",
    "leading-dot": ".hidden",
    "trailing-dot": "a.",
    "tilde": "~",
    "dash": "-rf",
    "xml": "a]]>&amp;b",
    "long": "l" * 255,
    "long-of-many-bytes": "€" * 85,
    "line-separator": "a\u2028b",
    "private-use": "\ue000\U0010ffff",
}
ALIKE = [
    *("Straße", "STRASSE", "strasse", "readme", "README", "ReadMe"),
    *(unicodedata.normalize(form, "Ångström") for form in ("NFC", "NFD")),
    *("a", "a ", "a.", " a", "a+", "a%20", "ａ"),
]


@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES)
async def test_odd_name(drive: Drive, name: str) -> None:
    file = Path((name, name))
    await put(drive, file, b"odd")
    assert await content(drive, file) == b"odd"
    assert await names(drive) == [name]
    assert await names(drive, str(file.parent)) == [name]
    assert (await drive.stat(file)).name == name
    for target in (Path(("copies", name)), Path((f"{name[:-1]}2",))):
        await drive.copy(file, target)
        assert await content(drive, target) == b"odd"
    await drive.move(file, Path(("moved", name)))
    assert await names(drive, "moved") == [name]
    await drive.delete(Path(("moved", name)))


async def test_odd_names_are_walked_one_by_one(drive: Drive) -> None:
    for name in ODD_NAMES.values():
        await put(drive, Path(("f", name)))
    for size in (1, 7):
        assert sorted(await names(drive, "f", size)) == sorted(ODD_NAMES.values())


async def test_names_that_look_alike_are_different_names(drive: Drive) -> None:
    for name in ALIKE:
        await put(drive, Path(("f", name)), name.encode())
    assert sorted(await names(drive, "f", 2)) == sorted(ALIKE)
    for name in ALIKE:
        assert await content(drive, Path(("f", name))) == name.encode()


@pytest.mark.both_roots
async def test_a_folder_and_a_file_whose_names_begin_alike(drive: Drive) -> None:
    for path in ("a", "a.txt", "a-b/x", "a0/x", "ab/x"):
        await put(drive, path)
    await drive.delete(at("a"))
    assert await names(drive) == ["a-b", "a0", "ab", "a.txt"]


async def test_a_path_that_no_service_holds_is_reported_as_such(drive: Drive) -> None:
    endless = Path(("x" * 250,) * 20)
    for work in (
        drive.stat(endless),
        drive.list_page(endless, 10),
        drive.read(endless),
        drive.delete(endless),
    ):
        with pytest.raises((InvalidPath, NotFound)):
            await work
