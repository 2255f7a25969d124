import re
from typing import Any
from urllib.parse import quote

import pytest

from portico.api.requests import FILESYSTEM
from portico.model.entries import Page
from portico.model.paths import Path
from portico.providers.local.provider import LocalProvider

from .conftest import SHARES_GATEWAY
from .gateways import Gateway, address

pytestmark = SHARES_GATEWAY


def names(body: dict[str, Any]) -> list[str]:
    return [entry["name"] for entry in body["content"]]


async def walk(gateway: Gateway, path: str = "", size: int = 1) -> list[dict[str, Any]]:
    pages = []
    parameters: dict[str, Any] = {"size": size}
    while True:
        response = await gateway.list(path, **parameters)
        assert response.status_code == 200
        pages.append(response.json())
        if pages[-1]["nextCursor"] is None:
            return pages
        parameters["cursor"] = pages[-1]["nextCursor"]


@pytest.fixture
def calls(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The folder and size of every listing that the provider was asked for."""
    made: list[tuple[str, int]] = []
    list_page = LocalProvider.list_page

    async def spy(self: LocalProvider, folder: Path, size: int, token: str | None, **options: bool) -> Page:
        made.append((str(folder), size))
        return await list_page(self, folder, size, token, **options)

    monkeypatch.setattr(LocalProvider, "list_page", spy)
    return made


# Entries


async def test_a_file_has_every_field(gateway: Gateway) -> None:
    gateway.put("reports/2026.csv", b"a;b\n")
    response = await gateway.list("reports")
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    body = response.json()
    assert body.keys() == {"nextCursor", "content"}
    assert body["nextCursor"] is None
    modified = body["content"][1].pop("lastModified")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", modified)
    assert body["content"][1] == {
        "name": "2026.csv",
        "absolutePath": "/reports/2026.csv",
        "type": "REGULAR",
        "contentType": "text/csv",
        "size": 4,
        "exists": True,
        "isCurrentFolder": False,
    }


async def test_a_folder_is_a_directory_without_a_size(gateway: Gateway) -> None:
    gateway.put("reports/2026.csv")
    entry = (await gateway.list()).json()["content"][1]
    assert (entry["name"], entry["absolutePath"]) == ("reports", "/reports")
    assert (entry["type"], entry["contentType"]) == ("DIRECTORY", "folder")
    assert (entry["exists"], entry["isCurrentFolder"]) == (True, False)
    assert "size" not in entry


@pytest.mark.parametrize(("path", "name", "absolute"), [("", "/", "/"), ("a/b", "b", "/a/b")])
async def test_the_first_page_begins_with_the_folder_itself(
    gateway: Gateway, path: str, name: str, absolute: str
) -> None:
    gateway.put("a/b/c.txt")
    assert (await gateway.list(path)).json()["content"][0] == {
        "name": name,
        "absolutePath": absolute,
        "type": "DIRECTORY",
        "contentType": "folder",
        "exists": True,
        "isCurrentFolder": True,
    }


async def test_only_the_first_page_has_the_folder_itself_and_it_does_not_count(gateway: Gateway) -> None:
    for name in "abcde":
        gateway.put(f"{name}.txt")
    pages = await walk(gateway, size=2)
    assert [names(page) for page in pages] == [["/", "a.txt", "b.txt"], ["c.txt", "d.txt"], ["e.txt"]]
    flags = [[entry["isCurrentFolder"] for entry in page["content"]] for page in pages]
    assert flags == [[True, False, False], [False, False], [False]]


async def test_the_root_exists_while_its_folder_does_not(gateway: Gateway) -> None:
    gateway.files.rmdir()
    response = await gateway.list()
    assert response.status_code == 200
    assert names(response.json()) == ["/"]
    assert response.json()["nextCursor"] is None


async def test_an_empty_folder_lists_only_itself(gateway: Gateway) -> None:
    (gateway.files / "empty").mkdir()
    assert names((await gateway.list("empty")).json()) == ["empty"]


# Order and pages


async def test_folders_come_before_files_each_by_code_point(gateway: Gateway) -> None:
    for folder in ("b", "Z", "ä", "~"):
        (gateway.files / folder).mkdir()
    for file in ("a", "B", "😀", "ﬀ", "é", "_", "10", "9"):
        gateway.put(file)
    expected = ["Z", "b", "~", "ä", "10", "9", "B", "_", "a", "é", "ﬀ", "😀"]
    assert names((await gateway.list()).json())[1:] == expected
    for size in (1, 2, 3, 5):
        found = [name for page in await walk(gateway, size=size) for name in names(page)]
        assert found == ["/", *expected]


async def test_a_listing_contains_unchanged_entries_exactly_once(gateway: Gateway) -> None:
    for number in range(20):
        gateway.put(f"{number:02}")
    parameters: dict[str, Any] = {"size": 3}
    seen: list[str] = []
    for step in range(20):
        body = (await gateway.list(**parameters)).json()
        seen += names(body)
        gateway.put(f"{step:02}-new")
        (gateway.files / f"{step:02}-new").unlink()
        if body["nextCursor"] is None:
            break
        parameters["cursor"] = body["nextCursor"]
    assert [name for name in seen if "-" not in name] == ["/", *(f"{number:02}" for number in range(20))]


async def test_links_and_our_own_names_are_not_listed(gateway: Gateway) -> None:
    gateway.put("real")
    (gateway.files / "link").symlink_to(gateway.files / "real")
    (gateway.files / "dangling").symlink_to("nowhere")
    (gateway.files / ".portico~staging").mkdir()
    (gateway.files / "con\ntrol").touch()
    (gateway.files / "back\\slash").touch()
    assert names((await gateway.list()).json()) == ["/", "real"]


# The size


@pytest.mark.parametrize(
    ("size", "asked"), [(None, 250), ("1", 1), ("0007", 7), ("5000", 5000), ("5001", 5000), ("9" * 40, 5000)]
)
async def test_the_size_is_handed_on_up_to_the_maximum(
    gateway: Gateway, calls: list[tuple[str, int]], size: str | None, asked: int
) -> None:
    response = await gateway.list(**({} if size is None else {"size": size}))
    assert response.status_code == 200
    assert calls == [(f"/{gateway.root}", asked)]


@pytest.mark.parametrize(
    "query",
    [
        "size=0",
        "size=00",
        "size=-1",
        "size=+1",
        "size=%2B1",
        "size=1e3",
        "size=1.0",
        "size=1_0",
        "size=0x10",
        "size=",
        "size=%20",
        "size=ten",
        "size=%D9%A1",
        "size=%EF%BC%91",
        "size=1&size=1",
        "size=1&%73ize=1",
        "action=LIST&action=LIST",
        "action=",
        "action=list",
        "action=DELETE",
        "action=LIST%00",
        "x=%ff",
        "x=\xff",
        "&".join(f"p{n}=1" for n in range(17)),
    ],
)
async def test_a_malformed_query_is_refused_without_asking_the_provider(
    gateway: Gateway, calls: list[tuple[str, int]], query: str
) -> None:
    target = f"{FILESYSTEM}?{query}".encode("latin-1")
    answer = await gateway.raw("GET", target, (await gateway.sign_in()).items())
    assert (answer.status, answer.json()["code"]) == (400, "invalid-request")
    assert calls == []


async def test_an_unknown_action_lists_the_known_ones(gateway: Gateway) -> None:
    detail = (await gateway.list(action="NONSENSE")).json()["detail"]
    assert all(action in detail for action in ("LIST", "DOWNLOAD", "STAT"))


# The cursor


async def test_a_cursor_that_is_not_ours_is_refused_without_asking_the_provider(
    gateway: Gateway, calls: list[tuple[str, int]]
) -> None:
    for name in ("a/1", "a/2", "b/1", "b/2", "1", "2"):
        gateway.put(name)
    good = (await gateway.list("a", size=1)).json()["nextCursor"]
    calls.clear()
    altered = [
        "",
        " ",
        "garbage",
        "x" * 2**12,
        "ü",
        "\0",
        good + "A",
        "A" + good,
        good[1:],
        good[:-1],
        good.swapcase(),
        *(good[:n] + chr(ord(good[n]) ^ 1) + good[n + 1 :] for n in range(len(good))),
    ]
    for cursor in altered:
        response = await gateway.list("a", cursor=cursor)
        assert (response.status_code, response.json()["code"]) == (400, "invalid-cursor"), cursor
    for folder in ("b", "", "gone"):
        response = await gateway.list(folder, cursor=good)
        assert (response.status_code, response.json()["code"]) == (400, "invalid-cursor"), folder
    assert calls == []
    assert (await gateway.list("a", cursor=good)).status_code == 200


async def test_a_cursor_of_64_kib_is_refused_without_asking_the_provider(
    gateway: Gateway, calls: list[tuple[str, int]]
) -> None:
    target = FILESYSTEM.encode() + b"?cursor=" + b"x" * 2**16
    answer = await gateway.raw("GET", target, (await gateway.sign_in()).items())
    assert answer.status == 414
    assert calls == []


async def test_a_cursor_of_another_connection_is_refused(gateway: Gateway, calls: list[tuple[str, int]]) -> None:
    for name in ("1", "2"):
        gateway.put(name)
    cursor = (await gateway.list(size=1)).json()["nextCursor"]
    other = gateway.settings.home / "other"
    (other / "web").mkdir(parents=True)
    await gateway.connections.add("other", "local", {"folder": str(other)}, {})
    await gateway.users.add("guest", "correct horse", connection="other", root="/web")
    calls.clear()
    response = await gateway.list(user="guest", cursor=cursor)
    assert (response.status_code, response.json()["code"]) == (400, "invalid-cursor")
    assert calls == []


async def test_a_cursor_is_the_same_for_everybody_who_sees_the_folder(gateway: Gateway) -> None:
    for name in ("a/1", "a/2"):
        gateway.put(name)
    await gateway.users.change("watcher", root="/")
    cursor = (await gateway.list("a", size=1)).json()["nextCursor"]
    response = await gateway.list(f"{gateway.root}/a", user="watcher", cursor=cursor)
    assert [entry["absolutePath"] for entry in response.json()["content"]] == [f"/{gateway.root}/a/2"]


async def test_a_cursor_of_a_folder_that_is_gone_is_refused(gateway: Gateway) -> None:
    for name in ("a/1", "a/2"):
        gateway.put(name)
    cursor = (await gateway.list("a", size=1)).json()["nextCursor"]
    assert (await gateway.call("DELETE", "a", params={"recursive": "true"})).status_code == 204
    response = await gateway.list("a", cursor=cursor)
    assert (response.status_code, response.json()["code"]) == (400, "invalid-cursor")
    gateway.put("a", b"a file now")
    response = await gateway.list("a", cursor=cursor, action="LIST")
    assert (response.status_code, response.json()["code"]) == (400, "invalid-cursor")


# Which address means what


@pytest.mark.parametrize("target", [FILESYSTEM, FILESYSTEM + "/"])
async def test_the_root_may_be_asked_with_a_slash_or_without(gateway: Gateway, target: str) -> None:
    gateway.put("a")
    response = await gateway.client.get(target, headers=await gateway.sign_in())
    assert names(response.json()) == ["/", "a"]


async def test_one_slash_at_the_end_is_allowed(gateway: Gateway) -> None:
    gateway.put("a/b/c")
    credentials = await gateway.sign_in()
    for target in ("/a/b", "/a/b/", "/a%2Fb", "/a%2fb/", "/%61/b"):
        answer = await gateway.raw("GET", (FILESYSTEM + target).encode(), credentials.items())
        assert names(answer.json()) == ["b", "c"], target


@pytest.mark.parametrize(
    "target",
    [
        "/..",
        "/.",
        "/../other",
        "/a/../..",
        "/%2e%2e",
        "/%2E%2e/x",
        "/..%2f",
        "/..%2Fother",
        "/..%5c",
        "/a%5cb",
        "/a\\b",
        "//",
        "//etc/passwd",
        "/%2fetc",
        "/a//b",
        "/a/./b",
        "/a//",
        "/%00",
        "/a%00b",
        "/a%0d%0ab",
        "/a%7f",
        "/%c2%85",
        "/%ff",
        "/%c0%ae%c0%ae",
        "/%c0%af",
        "/%ed%a0%80",
        "/\xff",
        "/%",
        "/%zz",
        "/%2",
        "/.portico~staging",
        "/.portico~staging/x",
        f"/{'n' * 256}",
    ],
)
async def test_a_path_that_is_not_one_is_refused(gateway: Gateway, target: str) -> None:
    credentials = await gateway.sign_in()
    for method, query in (("GET", ""), ("POST", "?action=MKDIR"), ("DELETE", "")):
        raw = (FILESYSTEM + target + query).encode("latin-1")
        answer = await gateway.raw(method, raw, credentials.items())
        assert (answer.status, answer.json()["code"]) == (400, "invalid-path"), method


@pytest.mark.parametrize("name", ["%2e%2e", "．．", "...", "C:", "a b", "a+b", "a%2Fb", "ü", "e\u0301", "~", "?#"])
async def test_an_odd_name_is_a_name(gateway: Gateway, name: str) -> None:
    gateway.put(f"{name}/file")
    body = (await gateway.list(name)).json()
    assert names(body) == [name, "file"]
    assert [entry["absolutePath"] for entry in body["content"]] == [f"/{name}", f"/{name}/file"]


@pytest.mark.parametrize("prefix", ["%2Fbackend", "/%62ackend"])
async def test_the_address_itself_may_not_be_escaped(gateway: Gateway, prefix: str) -> None:
    target = f"{prefix}/1.0.0/filesystem/a".encode()
    answer = await gateway.raw("GET", target, (await gateway.sign_in()).items())
    assert (answer.status, answer.json()["code"]) == (404, "not-found")


async def test_a_user_stays_inside_the_root(gateway: Gateway) -> None:
    beside = gateway.settings.files_folder / "webmaster"
    beside.mkdir()
    (beside / "file").write_bytes(b"canary")
    (gateway.files / "way-out").symlink_to(beside)
    for path in ("../webmaster", "master", "webmaster", "way-out", "way-out/file"):
        answer = await gateway.raw("GET", f"{FILESYSTEM}/{quote(path)}".encode(), (await gateway.sign_in()).items())
        assert answer.status in (400, 404), path
        assert b"canary" not in answer.body


# Actions and rights


async def test_without_an_action_a_folder_is_listed_and_a_file_is_sent(gateway: Gateway) -> None:
    gateway.put("a/b.txt", b"content")
    assert names((await gateway.list("a")).json()) == ["a", "b.txt"]
    assert (await gateway.call("GET", "a/b.txt")).content == b"content"


async def test_list_says_that_a_folder_is_meant(gateway: Gateway) -> None:
    gateway.put("a/b.txt")
    assert names((await gateway.list("a", action="LIST")).json()) == ["a", "b.txt"]
    response = await gateway.list("a/b.txt", action="LIST")
    assert (response.status_code, response.json()["code"]) == (409, "not-a-folder")


async def test_stat_describes_one_entry(gateway: Gateway) -> None:
    gateway.put("a/b.txt", b"content")
    file = (await gateway.list("a/b.txt", action="STAT")).json()
    assert file == (await gateway.list("a")).json()["content"][1]
    folder = (await gateway.list("a", action="STAT")).json()
    assert folder == (await gateway.list()).json()["content"][1]
    root = (await gateway.list(action="STAT")).json()
    assert (root["name"], root["absolutePath"], root["type"]) == ("/", "/", "DIRECTORY")


@pytest.mark.parametrize("action", [{}, {"action": "LIST"}, {"action": "STAT"}, {"action": "DOWNLOAD"}])
async def test_what_does_not_exist_is_not_found(gateway: Gateway, action: dict[str, str]) -> None:
    gateway.put("file")
    for path in ("gone", "gone/deeper", "file/below"):
        response = await gateway.call("GET", path, params=action)
        assert (response.status_code, response.json()["code"]) == (404, "not-found"), path


@pytest.mark.parametrize("action", [{}, {"action": "LIST"}, {"action": "STAT"}])
async def test_listing_needs_its_right(gateway: Gateway, action: dict[str, str]) -> None:
    gateway.put("a/b.txt")
    for user in ("fetcher", "dropper"):
        response = await gateway.call("GET", "a", user=user, params=action)
        assert (response.status_code, response.json()["code"]) == (403, "forbidden"), user


async def test_a_content_type_on_a_listing_does_not_matter(gateway: Gateway) -> None:
    headers = await gateway.sign_in() | {"Content-Type": "application/json"}
    assert (await gateway.client.get(address(""), headers=headers)).status_code == 200


async def test_head_answers_the_headers_of_a_listing(gateway: Gateway) -> None:
    gateway.put("a/b.txt")
    get, head = await gateway.call("GET", "a"), await gateway.call("HEAD", "a")
    assert head.status_code == 200
    for name in ("Content-Type", "Content-Length", "Cache-Control"):
        assert head.headers[name] == get.headers[name]


@pytest.mark.parametrize("query", ["sise=1", "Cursor=x", "onconflict=fail", "actoin=LIST"])
async def test_a_misspelt_parameter_is_not_passed_over(gateway: Gateway, query: str) -> None:
    answer = await gateway.raw("GET", f"{FILESYSTEM}?{query}".encode(), (await gateway.sign_in()).items())
    assert (answer.status, answer.json()["code"]) == (400, "invalid-request")
    assert "did you mean" in answer.json()["detail"]


async def test_a_stranger_among_the_parameters_is_passed_over(gateway: Gateway) -> None:
    answer = await gateway.raw("GET", f"{FILESYSTEM}?_=17000".encode(), (await gateway.sign_in()).items())
    assert answer.status == 200
