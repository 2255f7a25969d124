"""The lean scan and the real parser always agree, and neither is fooled."""

from dataclasses import dataclass
from xml.sax.saxutils import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from portico.model.errors import ProviderFailed
from portico.providers.wire.xml_listing import Document, Shape, parse, read, scan

SHAPE = Shape(
    records={"Contents": ("Key", "Size"), "CommonPrefixes": ("Prefix",)},
    fields=("IsTruncated", "NextContinuationToken"),
)

WANTED = ["Contents", "CommonPrefixes", "Key", "Size", "Prefix", "IsTruncated", "NextContinuationToken"]
UNKNOWN = ["Owner", "ID", "Keys", "Contents2", "Name", "a.b-c_d"]

characters = st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff").filter(
    lambda character: character >= " " or character in "\t\n\r"
)
words = st.text(characters, max_size=12) | st.sampled_from(
    ["", "true", "a/b", "]]>", "&amp;", "<Key>", "</Key>", " x "]
)


@st.composite
def escaped(draw: st.DrawFn) -> str:
    """Some text as one or the other service writes it."""
    text = draw(words)
    way = draw(st.sampled_from(["plain", "all", "numbers", "hexadecimal", "section", "comment"]))
    if way == "section":
        return f"<![CDATA[{text.replace(']]>', ' ')}]]>"
    plain = escape(text, {"\r": "&#13;", '"': "&quot;", "'": "&apos;"} if way == "all" else {"\r": "&#xD;"})
    if way == "comment":
        return f"{plain}<!-- <Key>no</Key> -->"
    if way in ("numbers", "hexadecimal"):
        form = "&#{};" if way == "numbers" else "&#x{:X};"
        return "".join(form.format(ord(letter)) for letter in text)
    return plain


@dataclass(frozen=True)
class Style:
    space: str
    attributes: bool
    spaced_tags: bool


styles = st.builds(Style, st.sampled_from(["", "\n", "\n  ", "\r\n\t"]), st.booleans(), st.booleans())


@st.composite
def elements(draw: st.DrawFn, style: Style, tags: list[str], depth: int) -> str:
    tag = draw(st.sampled_from(tags))
    attributes = draw(st.sampled_from(["", ' a="1"', " a='>'", ' xml:space="preserve"'])) if style.attributes else ""
    gap = draw(st.sampled_from(["", " ", "\n"])) if style.spaced_tags else ""
    if draw(st.integers(0, 9)) == 0:
        return f"<{tag}{attributes}{gap}/>"
    if tag in ("Contents", "CommonPrefixes", "Owner") and depth:
        inner = draw(st.lists(elements(style, tags, depth - 1), max_size=4))
        content = style.space.join(["", *inner, ""])
    else:
        content = draw(escaped())
    return f"<{tag}{attributes}{gap}>{content}</{tag}{gap}>"


@st.composite
def documents(draw: st.DrawFn) -> str:
    style = draw(styles)
    inner = draw(st.lists(elements(style, WANTED + UNKNOWN, 2), max_size=8))
    prologue = draw(st.sampled_from(["", '<?xml version="1.0"?>', "<?xml version='1.0' encoding='UTF-8'?>\n"]))
    space = draw(st.sampled_from(["", ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"', ' ServiceEndpoint="x"']))
    root = draw(st.sampled_from(["ListBucketResult", "EnumerationResults", "R"]))
    ending = draw(st.sampled_from(["", "\n"]))
    return f"{prologue}<{root}{space}>{style.space.join(['', *inner, ''])}</{root}>{ending}"


@example("<R><Contents><Key\n/><Key>true</Key></Contents></R>")
@example("<R><Contents><Key a='1'/><Key>true</Key></Contents></R>")
@example("<R><Contents><Key a='>'/><Foo>x</Foo><Size>1</Size></Contents></R>")
@given(documents())
def test_scan_and_parse_agree(text: str) -> None:
    parsed = parse(text, SHAPE)
    assert scan(text, SHAPE) in (None, parsed)
    assert read(text.encode(), SHAPE, 1000) == parsed
    assert read(b"\xef\xbb\xbf" + text.encode(), SHAPE, 1000) == parsed


@given(documents(), st.data())
def test_scan_and_parse_agree_on_what_is_damaged(text: str, data: st.DataObject) -> None:
    """Where the scan still sees a page, the parser sees the same one, or sees that it is none."""
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 10)))
    put_in = data.draw(st.sampled_from(["", "<", ">", "/", "<Key>", "</Contents>", "<Contents>", "&", "\n"]))
    damaged = text[:start] + put_in + text[stop:]
    scanned = scan(damaged, SHAPE)
    if scanned is None:
        return
    try:
        assert parse(damaged, SHAPE) == scanned
    except ProviderFailed:
        return


def page(keys: list[str], rest: str = "") -> str:
    records = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<R xmlns="x"><IsTruncated>true</IsTruncated>{records}{rest}</R>'


def expected(keys: list[str]) -> Document:
    return Document(
        {"Contents": [(key, "1") for key in keys], "CommonPrefixes": []},
        {"IsTruncated": "true", "NextContinuationToken": None},
    )


@given(st.lists(words, max_size=5))
def test_what_services_send_is_scanned(keys: list[str]) -> None:
    text = page([escape(key, {"\r": "&#13;"}) for key in keys])
    assert scan(text, SHAPE) == expected(keys)


def test_pretty_printed_pages_are_scanned() -> None:
    text = page(["a", "b"]).replace("><", ">\n  <")
    assert scan(text, SHAPE) == expected(["a", "b"])


def test_a_page_that_was_cut_is_none() -> None:
    text = page(["a", "b"])
    for stop in range(len(text)):
        with pytest.raises(ProviderFailed):
            read(text[:stop].encode(), SHAPE, 1000)


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE R [<!ENTITY a "aaaa">]><R><IsTruncated>&a;</IsTruncated></R>',
        '<?xml version="1.0"?>\n<!DOCTYPE R SYSTEM "file:///etc/passwd"><R/>',
        "<R><IsTruncated>&nbsp;</IsTruncated></R>",
        "<R><Contents></R>",
        "<R><IsTruncated>&#0;</IsTruncated></R>",
        "no XML",
        "",
        "<a>" * 100_000 + "<!-- -->" + "</a>" * 100_000,
    ],
    ids=["bomb", "external", "entity", "unpaired", "nul", "text", "empty", "deep"],
)
def test_what_is_no_page_is_refused(text: str) -> None:
    with pytest.raises(ProviderFailed) as caught:
        read(text.encode(), SHAPE, 1000)
    assert caught.value.cause


def test_a_page_in_another_encoding_is_refused() -> None:
    with pytest.raises(ProviderFailed):
        read("<R>é</R>".encode("latin-1"), SHAPE, 1000)


def test_the_declared_encoding_is_not_believed() -> None:
    text = page(["é"]).replace("UTF-8", "ISO-8859-1")
    assert read(text.encode(), SHAPE, 1000) == parse(text, SHAPE) == expected(["é"])
