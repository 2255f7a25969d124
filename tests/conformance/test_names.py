import unicodedata

import pytest

from portico.model.errors import InvalidPath, NotFound
from portico.model.paths import Path

from ..recorded_drive import RecordedDrive
from .actions import at, content, names, put
from .harness import Harness

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


async def test_odd_names(drive: RecordedDrive, harness: Harness) -> None:
    """Of files and of folders, one by one and in folders that are copied, moved and deleted as a whole."""
    odd = [name for name in ODD_NAMES.values() if harness.holds(name)]
    for name in odd:
        await put(drive, Path(("f", name)), name.encode())
    assert sorted(await names(drive, "f", 7)) == sorted(odd)
    for name in odd:
        file, inside = Path(("f", name)), Path(("inside", name, name))
        assert (await drive.stat(file)).name == name
        await drive.copy(file, inside)
        assert await content(drive, inside) == name.encode()
    assert sorted(await names(drive, "inside")) == sorted(odd)
    await drive.move(at("f"), at("moved"))
    assert sorted(await names(drive, "moved")) == sorted(odd)
    for name in odd:
        await drive.delete(Path(("moved", name)))
    await drive.delete(at("inside"), recursive=True)
    assert set(await names(drive)) <= {"moved"}


async def test_a_name_that_the_service_forbids(drive: RecordedDrive, harness: Harness) -> None:
    for name in ODD_NAMES.values():
        if not harness.holds(name):
            with pytest.raises(InvalidPath):
                await put(drive, Path((name,)))
    assert await names(drive) == []


async def test_names_that_look_alike_are_different_names(drive: RecordedDrive) -> None:
    for name in ALIKE:
        await put(drive, Path(("f", name)), name.encode())
    assert sorted(await names(drive, "f", 2)) == sorted(ALIKE)
    for name in ALIKE:
        assert await content(drive, Path(("f", name))) == name.encode()


@pytest.mark.both_roots
async def test_a_folder_and_a_file_whose_names_begin_alike(drive: RecordedDrive) -> None:
    for path in ("a", "a.txt", "a-b/x", "a0/x", "ab/x"):
        await put(drive, path)
    await drive.delete(at("a"))
    assert await names(drive) == ["a-b", "a0", "ab", "a.txt"]


async def test_a_path_that_no_service_holds_is_reported_as_such(drive: RecordedDrive) -> None:
    endless = Path(("x" * 250,) * 20)
    for work in (drive.stat(endless), drive.list_page(endless, 10), drive.read(endless), drive.delete(endless)):
        with pytest.raises((InvalidPath, NotFound)):
            await work
