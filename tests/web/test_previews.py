"""Previews: each kind of file, what is in them that would like to run, and the player's ticket."""

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, Route, expect

import portico

from ..gateways import Gateway
from ..operations.test_thumbnails import pdf
from .browser_user import BrowserUser
from .conftest import OpenPage

SOURCES = Path(portico.__file__).parent / "web" / "js"
SCRIPT = "<script>document.title = 'owned'; fetch('/beacon')</script><img src=x onerror=\"document.title='owned'\">"
DRAWING = f"""<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="80" height="60"
 onload="document.title='owned'">{SCRIPT.replace("<img src=x", "<image href='/beacon'").replace('">', '"/>')}
<script href="/beacon"/><foreignObject width="9" height="9"><iframe xmlns="http://www.w3.org/1999/xhtml"
 src="/beacon"/></foreignObject><rect width="80" height="60" fill="teal"/></svg>"""
MARKDOWN = f"""# Notes

Some *emphasis*, **strong** words, `code`, ~~gone~~ and a [link](https://example.org/a?b=1 "title").
[Bad](javascript:document.title='owned') ![picture](http://127.0.0.1:1/beacon.png) <https://example.org>

- [x] done
- [ ] open
  1. nested

> quoted

| a | b |
|---|:-:|
| 1 | x \\| y |

```js
{SCRIPT}
```

{SCRIPT}
"""
TABLE = 'name;note\n"a;b";"line\nbreak ""quoted"""\n<b>c</b>;\n'


def picture(width: int, height: int, rows: bytes | None = None) -> bytes:
    """A PNG of one colour."""
    rows = rows or b"".join(b"\0" + b"\x20\x80\xf0" * width for _ in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def sound(seconds: int) -> bytes:
    """A WAV with a tone."""
    rate = 8000
    data = bytes(128 + int(100 * math.sin(index / 4)) for index in range(rate)) * seconds
    head = struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVEfmt ", 16, 1, 1, rate, rate, 1, 8, b"data", len(data))  # fmt: skip
    return head + data


def open_preview(user: BrowserUser, name: str) -> None:
    user.row(name).locator(".open").click()
    expect(user.dialog.locator("h2")).to_have_text(name)


def next_file(user: BrowserUser, name: str) -> None:
    user.press("ArrowRight")
    expect(user.dialog.locator("h2")).to_have_text(name)


def test_each_kind_of_file_is_shown_and_nothing_in_it_runs(user: BrowserUser, root: Path, gateway: Gateway) -> None:
    began = len(gateway.output)
    (root / "01 page.html").write_text(SCRIPT)
    (root / "02 drawing.svg").write_text(DRAWING)
    (root / "03 picture.png").write_bytes(picture(40, 30))
    (root / "04 broken.png").write_bytes(SCRIPT.encode())
    (root / "05 long.log").write_text("line of a log\n" * 50_000)
    (root / "06 empty.txt").write_text("")
    (root / "07 skipped.bin").write_bytes(b"\0" * 99)
    (root / "08 notes.md").write_text(MARKDOWN)
    (root / "09 table.csv").write_text(TABLE)
    (root / "10 long.csv").write_text("number,square\n" + "".join(f"{n},{n * n}\n" for n in range(3000)))
    (root / "11 paper.pdf").write_bytes(pdf(7, script="app.alert('owned')"))
    (root / "11 torn.pdf").write_bytes(b"%PDF-1.7")
    name = '12 <img src=x onerror="alert(1)">.txt'
    (root / name).write_text("one\ntwo\n")
    user.press("r")
    open_preview(user, "01 page.html")
    stage = user.dialog.locator(".preview-content")
    expect(stage.locator("pre")).to_have_text(SCRIPT)
    next_file(user, "02 drawing.svg")
    expect(stage.get_by_role("img", name="Image 02 drawing.svg")).to_be_visible()
    user.check_access()
    user.dialog.get_by_role("button", name="Show source").click()
    expect(stage.locator("pre")).to_contain_text("<rect")
    user.dialog.get_by_role("button", name="Show source").click()
    expect(stage.locator("img")).to_be_visible()
    stage.focus()
    next_file(user, "03 picture.png")
    expect(stage.get_by_role("img", name="Image 03 picture.png")).to_be_visible()
    assert stage.locator("img").evaluate("img => [img.naturalWidth, img.naturalHeight]") == [40, 30]
    next_file(user, "04 broken.png")
    expect(stage).to_contain_text("This image can't be displayed")
    next_file(user, "05 long.log")
    expect(stage).to_contain_text("Showing only the first 262 kB.")
    next_file(user, "06 empty.txt")
    expect(stage).to_have_text("The file is empty.")
    next_file(user, "08 notes.md")
    article = stage.locator("article")
    expect(article.get_by_role("heading", name="Notes")).to_be_visible()
    expect(article.locator("strong")).to_have_text("strong")
    links = article.get_by_role("link")
    assert [link.get_attribute("href") for link in links.all()] == ["https://example.org/a?b=1", "https://example.org/"]
    assert {link.get_attribute("rel") for link in links.all()} == {"noopener noreferrer"}
    expect(article).to_contain_text("Bad")
    expect(article.locator("pre")).to_have_text(SCRIPT)
    expect(article.locator("> p").last).to_contain_text("document.title = 'owned'")
    expect(article.locator("td").last).to_have_text("x | y")
    expect(article.locator("ol li")).to_have_text("nested")
    assert article.locator("script, img, iframe").count() == 0
    user.check_access()
    next_file(user, "09 table.csv")
    cells = stage.locator("tbody td")
    expect(cells).to_have_count(4)
    assert cells.all_inner_texts() == ["a;b", 'line\nbreak "quoted"', "<b>c</b>", ""]
    user.check_access()
    next_file(user, "10 long.csv")
    expect(stage).to_contain_text("Showing only the first 1,000 rows.")
    expect(stage.locator("tbody tr")).to_have_count(999)
    next_file(user, "11 paper.pdf")
    expect(stage.get_by_role("img", name="Page 1 of 7")).to_be_visible()
    expect(stage.get_by_role("img")).to_have_count(7)
    last = stage.get_by_role("img", name="Page 7 of 7")
    last.scroll_into_view_if_needed()
    expect(last).to_have_js_property("naturalWidth", 1600)
    user.check_access()
    user.expect_refusal(404)
    next_file(user, "11 torn.pdf")
    expect(stage).to_contain_text("There's no preview of this file.")
    next_file(user, name)
    expect(stage.locator(".line-numbers")).to_have_text("1\n2")
    user.close_preview()
    expect(user.active).to_have_text(name)
    assert "owned" not in user.page.title()
    assert "beacon" not in gateway.output[began:]


def test_a_player_seeks_and_its_ticket_is_renewed(user: BrowserUser, root: Path) -> None:
    page = user.page
    (root / "1 tone.wav").write_bytes(sound(300))
    (root / "2 broken.mp4").write_bytes(b"no film")
    user.press("r")
    page.clock.install()
    open_preview(user, "1 tone.wav")
    player = user.dialog.locator("audio")
    expect(player).to_have_js_property("duration", 300)
    user.check_access()
    address = player.evaluate("player => player.src")
    with page.expect_request(lambda request: "action=TICKET" in request.url) as renewal:
        page.clock.fast_forward(25_000)
    assert address.partition("ticket=")[2] in renewal.value.url
    player.evaluate("player => new Promise(done => { player.onseeked = done; player.currentTime = 250; })")
    assert player.evaluate("player => player.src") == address
    with page.expect_request(lambda request: "action=TICKET" in request.url):  # as after a lost connection
        player.evaluate("player => { player.dispatchEvent(new Event('error')); }")
    expect(player).to_have_js_property("currentTime", 250)
    expect(player).to_have_js_property("error", None)
    assert any("ticket=" in url for url in user.requests)
    player.focus()
    user.press("ArrowRight")
    expect(user.dialog.locator("h2")).to_have_text("1 tone.wav")
    user.dialog.get_by_role("button", name="Next file").click()
    expect(user.dialog.get_by_role("alert")).to_contain_text("This file can't be played here.")


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.thorough), "dark"])
def test_previews_on_a_phone(open_page: OpenPage, gateway: Gateway, root: Path, scheme: str) -> None:
    (root / "a.md").write_text(MARKDOWN)
    (root / "b.csv").write_text("a,b,c\n" + "a long text,another long text,and one more of them\n" * 50)
    (root / "c.wav").write_bytes(sound(2))
    options = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}
    user = open_page(gateway, color_scheme=scheme, **options)
    user.sign_in()
    user.row("a.md").locator(".open").tap()
    for content in ("article", "table", "audio"):
        if content != "article":
            user.dialog.get_by_role("button", name="Next file").tap()
        expect(user.dialog.locator(content).first).to_be_visible()
        user.check_access()
        assert user.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_video_is_played_from_any_position(user: BrowserUser, root: Path, gateway: Gateway) -> None:
    """`clip.mp4`: half a minute of a growing bar, VP9. Its index is at the end, behind 32 MiB that nobody needs here."""
    clip = (Path(__file__).parent / "clip.mp4").read_bytes()
    index = clip.index(b"moov") - 4
    padding = 32 * 2**20
    (root / "clip.mp4").write_bytes(
        clip[:index] + struct.pack(">I4s", padding, b"free") + bytes(padding - 8) + clip[index:]
    )
    user.press("r")
    ranges: list[str] = []
    user.page.on("request", lambda request: ranges.append(request.headers.get("range", "")))
    with user.page.expect_response("**/*action=TICKET*") as answer:
        open_preview(user, "clip.mp4")
    assert answer.value.json()["expiresIn"] >= 60
    player = user.dialog.locator("video")
    expect(player).to_have_js_property("duration", 30)
    begins = [int(each[6:].partition("-")[0]) for each in ranges if each.startswith("bytes=")]
    assert max(begins) > padding // 2
    for moment in (25, 5):
        shown = player.evaluate(
            """async (player, moment) => {
              const seeked = new Promise((resolve) => player.addEventListener("seeked", resolve, {once: true}));
              player.currentTime = moment;
              await seeked;
              const canvas = new OffscreenCanvas(64, 48).getContext("2d");
              canvas.drawImage(player, 0, 0);
              const row = canvas.getImageData(0, 24, 64, 1).data;
              return [player.currentTime, [...row].filter((value, index) => index % 4 === 0 && value > 128).length];
            }""",
            moment,
        )
        assert shown[0] == moment
        assert abs(shown[1] - 64 * moment / 30) < 4  # the bar is as long as it is at that moment
    player.evaluate("player => { player.muted = true; return player.play(); }")
    expect(player).not_to_have_js_property("currentTime", 5)
    user.dialog.press("Escape")


@pytest.fixture(scope="module")
def modules(browser: Browser) -> Iterator[Page]:
    """A blank page with the sources of two modules, without a gateway."""
    page = browser.new_page()

    def serve(route: Route) -> None:
        name = route.request.url.removeprefix("http://modules.test/")
        if name:
            route.fulfill(body=(SOURCES / name).read_text(), content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html>", content_type="text/html")

    page.route("**", serve)
    page.goto("http://modules.test/")
    page.evaluate(
        """async () => {
          globalThis.csv = await import("/previews/csv.js");
          globalThis.markdown = await import("/previews/markdown.js");
        }"""
    )
    yield page
    page.close()


def test_records_of_a_table(modules: Page) -> None:
    cases = {
        "": [],
        "a,b": [["a", "b"]],
        "a,b\r\nc,d\r\n": [["a", "b"], ["c", "d"]],
        "a,\n,b": [["a", ""], ["", "b"]],
        '"a,""b""",c\n': [['a,"b"', "c"]],
        'a,b\n"open, and never closed\n': [["a", "b"], ["open, and never closed\n"]],
        "a;b\n1,5;2": [["a", "b"], ["1,5", "2"]],
        "a\tb\n1\t2": [["a", "b"], ["1", "2"]],
        "a|b\n1|2": [["a", "b"], ["1", "2"]],
        "\n\na\n\n": [["a"]],
        "a,": [["a", ""]],
    }
    for text, rows in cases.items():
        assert modules.evaluate("text => csv.parseTable(text).rows", text) == rows, text
    assert modules.evaluate("() => csv.parseTable('a\\n'.repeat(9), {maxRows: 3})") == {
        "rows": [["a"]] * 3,
        "rest": True,
    }


def test_markdown_becomes_elements_and_text(modules: Page) -> None:
    cases = {
        "a *b* _c_ **d** __e__ ***f*** g*h*i j_k_l": "a <em>b</em> <em>c</em> <strong>d</strong> "
        "<strong>e</strong> <strong><em>f</em></strong> g<em>h</em>i j_k_l",
        "2 * 3 * 4 and a*": "2 * 3 * 4 and a*",
        "`` a ` b `` and `open": "<code>a ` b</code> and `open",
        "\\*a\\* &amp; <b>": "*a* &amp;amp; &lt;b&gt;",
        "one  \ntwo\\\nthree\nfour": "one<br>two<br>three\nfour",
        "https://example.org/x. next": '<a href="https://example.org/x" target="_blank" rel="noopener noreferrer">https://example.org/x</a>. next',
        "[a](data:text/html,x) [b](//example.org) [c](/d) [e](JaVaScRiPt:1)": "<span>a</span> <span>b</span> <span>c</span> <span>e</span>",
        "<javascript:1> <me@example.org>": '<span>javascript:1</span> <a href="mailto:me@example.org" target="_blank" rel="noopener noreferrer">me@example.org</a>',
    }
    for text, html in cases.items():
        shown = modules.evaluate("text => markdown.markdownView(text).querySelector('p').innerHTML", text)
        assert shown == html, text
    outlines = {
        "# A\nb\n\nC\n===\n####### d": "H3,P,H3,P",
        "- a\n- b\n\n  c\n\n1. d\n2. e": "UL,OL",
        "---\n***\n> a\n>\n> - b": "HR,HR,BLOCKQUOTE",
        "```\na\n": "PRE",
        "    code\n\n    more\ntext": "PRE,P",
        "| a |\n|---|": "DIV",
        "a | b": "P",
    }
    for text, tags in outlines.items():
        code = "text => [...markdown.markdownView(text).children].map(({tagName}) => tagName).join()"
        assert modules.evaluate(code, text) == tags, text


def test_no_text_keeps_the_page_busy(modules: Page) -> None:
    """Each of these is as long as what a preview shows; with a quadratic step somewhere, this test would not end."""
    length = 256 * 1024
    for unit in ("*a", "**a ", "_a ", "[", "![", "[a](", "`", "`a``b", "<", "> ", "- ", "  - a\n", "| - ", "|-", "\\",
                 "- " * 50 + "\n", "http://", "#", " ", "~~", "\t", '"', ",", "```\n", "1. ", "=", "-", "- " + " " * 99):  # fmt: skip
        text = unit * (length // len(unit)) + "x"
        code = "text => [markdown.markdownView(text).childElementCount > 0, csv.parseTable(text).rows.length > 0]"
        assert modules.evaluate(code, text) == [True, True], unit


def test_text_in_the_encodings_of_spreadsheets(user: BrowserUser, root: Path) -> None:
    text = "Größe;Straße\n5 €;“Köln”\n"
    (root / "ansi.csv").write_bytes(text.encode("cp1252"))
    (root / "big-endian.csv").write_bytes(b"\xfe\xff" + text.encode("utf-16-be"))
    (root / "little-endian.csv").write_bytes(text.encode("utf-16"))
    (root / "utf-8.csv").write_bytes(text.encode())
    (root / "ansi.txt").write_bytes(text.encode("cp1252"))
    # One wrong byte does not make another encoding of it.
    (root / "broken.txt").write_bytes("äöü ÄÖÜ ß € ".encode() + b"\xff")
    user.press("r")
    for name in ("ansi.csv", "big-endian.csv", "little-endian.csv", "utf-8.csv"):
        user.row(name).locator(".open").click()
        expect(user.dialog.locator("thead th")).to_have_text(["Größe", "Straße"])
        expect(user.dialog.locator("tbody td")).to_have_text(["5 €", "“Köln”"])
        user.close_preview()
    for name, content in (("ansi.txt", "Größe;Straße"), ("broken.txt", "äöü ÄÖÜ ß € \ufffd")):
        user.row(name).locator(".open").click()
        expect(user.dialog.locator("pre")).to_contain_text(content)
        user.close_preview()


@pytest.mark.parametrize("name", ["paper.pdf", "photo.png"])
def test_a_gateway_without_thumbnails_says_so(open_page: OpenPage, tmp_path: Path, name: str) -> None:
    gateway = Gateway(tmp_path / "home", settings={"PORTICO_THUMBNAILS_CACHE_SIZE": "0"})
    gateway.start()
    try:
        root = gateway.empty_root()
        if name == "paper.pdf":
            (root / name).write_bytes(pdf(1))
        else:
            Image.new("RGB", (64, 64), "red").save(root / name)
        user = open_page(gateway, signed_in=True)
        missing = user.page.get_by_text(
            "Thumbnails aren't set up on this gateway (extra “thumbnails”, setting “thumbnails.cache-size”)."
        )
        expect(missing).to_be_hidden()
        user.press("g")
        expect(missing).to_be_visible()
        if name == "photo.png":
            return
        user.row(name).locator(".open").click()
        expect(user.dialog).to_contain_text(
            "PDF previews aren't set up on this gateway (extra “thumbnails”, setting “thumbnails.cache-size”)."
        )
        expect(user.dialog).not_to_contain_text("script")
    finally:
        gateway.kill()
