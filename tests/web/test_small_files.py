"""Small files share requests, and each of them gets its own outcome. A single one is sent by `PUT`."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Request, expect

from ..gateways import Gateway
from ..servers.line import Line
from .browser_user import BrowserUser, file, zeros
from .conftest import OpenPage
from .test_resumable import MODIFIED, line, user
from .test_upload import summary

__all__ = ["line", "user"]


class Uploads:
    """The uploads that a page sends from now on."""

    def __init__(self, user: BrowserUser) -> None:
        self.requests: list[Request] = []
        user.page.on("request", self._sent)

    def _sent(self, request: Request) -> None:
        if "onConflict" in request.url:
            self.requests.append(request)

    @property
    def methods(self) -> list[str]:
        return sorted(request.method for request in self.requests)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A folder with 250 files, and one below it with 20."""
    top = tmp_path / "scans"
    (top / "more").mkdir(parents=True)
    for number in range(250):
        (top / f"{number:03}.txt").write_bytes(b"%d" % number * 500)
    for number in range(20):
        (top / "more" / f'größe \'n ("{number}").txt').write_bytes(b"%d" % number)
    for path in top.rglob("*.txt"):
        os.utime(path, (MODIFIED, MODIFIED))
    return top


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.txt")}


def test_many_files_in_few_requests(user: BrowserUser, root: Path, many: Path) -> None:
    uploads = Uploads(user)
    user.choose_folder(many)
    summary(user, "270 files uploaded")
    assert content(root / "scans") == content(many)
    assert uploads.methods == ["POST"] * 4
    assert {path.stat().st_mtime for path in root.rglob("*.txt")} == {MODIFIED}


def test_requests_are_not_too_large(user: BrowserUser, tmp_path: Path) -> None:
    uploads = Uploads(user)
    user.choose_files(*(zeros(tmp_path, f"{number}.bin", 1_500_000) for number in range(6)))
    summary(user, "6 files uploaded")
    assert uploads.methods == ["POST"] * 3


def test_single_file_is_the_body_of_a_put(user: BrowserUser, root: Path, tmp_path: Path) -> None:
    single = tmp_path / "größe & ('n #1?).txt"
    single.write_bytes(b"content")
    os.utime(single, (MODIFIED, MODIFIED))
    uploads = Uploads(user)
    user.choose_files(single)
    summary(user, "1 file uploaded")
    (sent,) = uploads.requests
    assert sent.method == "PUT"
    assert sent.url.endswith("?onConflict=fail")
    assert sent.headers["content-type"] == "text/plain"
    assert sent.headers["idempotency-key"]
    stored = root / single.name
    assert stored.read_bytes() == b"content"
    assert stored.stat().st_mtime == MODIFIED


def test_single_file_whose_name_is_taken(user: BrowserUser, root: Path) -> None:
    (root / "a.txt").write_bytes(b"old")  # after the page has looked
    user.expect_refusal(409)
    uploads = Uploads(user)
    user.choose_files(file("a.txt", b"new"))
    user.dialog.get_by_role("button", name="Keep both").click()
    summary(user, "1 file uploaded")
    expect(user.upload_panel.get_by_role("listitem")).to_contain_text("Saved as a (1).txt")
    assert uploads.methods == ["PUT", "PUT"]
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {"a.txt": b"old", "a (1).txt": b"new"}


def test_line_that_is_cut_within_a_put(user: BrowserUser, line: Line, root: Path, tmp_path: Path) -> None:
    user.expect_refusal("net::ERR")
    user.expect_refusal(409)  # while the gateway still works on the request that was cut
    line.cut_after(1_000_000, 2_000_000)
    uploads = Uploads(user)
    user.choose_files(zeros(tmp_path, "a.bin", 5_000_000))
    summary(user, "1 file uploaded")
    assert line.cuts == 2
    assert len({request.headers["idempotency-key"] for request in uploads.requests}) == 1
    assert (root / "a.bin").read_bytes() == bytes(5_000_000)


def test_line_that_is_cut_stores_nothing_twice(user: BrowserUser, line: Line, root: Path, many: Path) -> None:
    user.expect_refusal("net::ERR")
    user.expect_refusal(409)  # while the gateway still works on the request that was cut
    line.cut_after(60_000, 90_000)
    user.choose_folder(many)
    summary(user, "270 files uploaded")
    assert line.cuts == 2
    assert content(root / "scans") == content(many)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("Replace", "270 files uploaded"),
        pytest.param("Skip", "266 files uploaded, 4 skipped", marks=pytest.mark.thorough),
    ],
)
def test_conflicts_that_only_the_gateway_sees(
    user: BrowserUser, root: Path, many: Path, choice: str, expected: str
) -> None:
    user.expect_refusal(409)
    user.page.route("**/scans?action=LIST*", lambda route: route.abort())  # the page cannot look
    user.expect_refusal("net::ERR")
    user.expect_refusal(404)
    (root / "scans").mkdir()
    for name in ("000.txt", "123.txt", "124.txt", "249.txt"):
        (root / "scans" / name).write_bytes(b"old")
    user.press("r")
    expect(user.row("scans")).to_be_visible()
    user.choose_folder(many)
    user.dialog.get_by_label("Do this for all").check()
    user.dialog.get_by_role("button", name=choice).click()
    summary(user, expected)
    wanted = content(many)
    if choice == "Skip":
        wanted |= dict.fromkeys(("000.txt", "123.txt", "124.txt", "249.txt"), b"old")
    assert content(root / "scans") == wanted


def test_refused_file_does_not_affect_the_others(user: BrowserUser, root: Path) -> None:
    (root / "2.txt").mkdir()  # after the page has looked; a file cannot take its place
    user.expect_refusal(409)
    uploads = Uploads(user)
    user.choose_files(*(file(f"{number}.txt", b"%d" % number) for number in range(5)))
    summary(user, "4 files uploaded, 1 failed")
    expect(user.upload_panel.get_by_role("listitem").first).to_contain_text("A folder with this name")
    assert sorted(os.listdir(root)) == [f"{number}.txt" for number in range(5)]
    assert uploads.methods == ["POST", "POST", "PUT"]


def test_cancelling_one_file_of_a_request(open_page: OpenPage, gateway: Gateway, root: Path, tmp_path: Path) -> None:
    user = open_page(gateway, signed_in=True)
    user.expect_refusal(404)  # it looks whether the others were stored
    user.slow_down(500_000)
    user.choose_files(*(zeros(tmp_path, f"{number}.bin", 1_000_000) for number in range(3)))
    row = user.upload_panel.get_by_role("listitem").filter(has_text="1.bin")
    user.wait_until(lambda: float(row.locator("progress").get_attribute("value") or 0) > 0)
    user.upload_panel.get_by_role("button", name="Cancel 1.bin").click()
    user.slow_down(-1)
    summary(user, "2 files uploaded, 1 cancelled")
    assert sorted(os.listdir(root)) == ["0.bin", "2.bin"]
    user.expect_names("0.bin", "2.bin")
