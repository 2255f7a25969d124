import pytest

from portico.api.requests import FILESYSTEM

from .conftest import SHARES_GATEWAY
from .gateways import Gateway

pytestmark = SHARES_GATEWAY


def tree(gateway: Gateway) -> set[str]:
    return {str(each.relative_to(gateway.files)) + ("/" if each.is_dir() else "") for each in gateway.files.rglob("*")}


async def change(gateway: Gateway, method: str, path: str, user: str = "web", **parameters: str) -> str:
    """What became of it: its path now, or the code of the error."""
    response = await gateway.call(method, path, user=user, params=parameters)
    if response.is_success:
        assert response.content == b""
        assert response.status_code == (204 if method == "DELETE" else 201)
        return response.headers.get("Location", "").removeprefix(FILESYSTEM)
    return str(response.json()["code"])


async def make_folder(gateway: Gateway, path: str, user: str = "web") -> str:
    return await change(gateway, "POST", path, user, action="MKDIR")


# MKDIR


async def test_a_folder_is_made_with_its_parents(gateway: Gateway) -> None:
    assert await make_folder(gateway, "a/b c/ü") == "/a/b%20c/%C3%BC"
    assert tree(gateway) == {"a/", "a/b c/", "a/b c/ü/"}


@pytest.mark.parametrize("path", ["a", "", "a/"])
async def test_a_folder_that_exists_is_fine(gateway: Gateway, path: str) -> None:
    gateway.put("a/file")
    assert (await make_folder(gateway, path)).rstrip("/") in ("", "/a")
    assert tree(gateway) == {"a/", "a/file"}


async def test_a_folder_cannot_take_the_place_of_a_file(gateway: Gateway) -> None:
    gateway.put("file")
    assert await make_folder(gateway, "file") == "not-a-folder"
    assert await make_folder(gateway, "file/below") == "not-a-folder"


async def test_making_a_folder_needs_the_right_to_upload(gateway: Gateway) -> None:
    assert await make_folder(gateway, "a", "reader") == "forbidden"
    assert await make_folder(gateway, "a", "dropper") == "/a"


# MOVE and COPY


@pytest.mark.parametrize("action", ["MOVE", "COPY"])
@pytest.mark.parametrize("target", ["/new/b.txt", "new/b.txt"])
async def test_a_file_goes_to_its_target(gateway: Gateway, action: str, target: str) -> None:
    gateway.put("old/a.txt", b"content")
    assert await change(gateway, "POST", "old/a.txt", action=action, target=target) == "/new/b.txt"
    assert (gateway.files / "new/b.txt").read_bytes() == b"content"
    assert (gateway.files / "old/a.txt").exists() == (action == "COPY")


@pytest.mark.parametrize("action", ["MOVE", "COPY"])
async def test_a_folder_goes_with_all_that_it_holds(gateway: Gateway, action: str) -> None:
    for name in ("old/1", "old/deep/2"):
        gateway.put(name)
    assert await change(gateway, "POST", "old", action=action, target="/new") == "/new"
    moved = {"new/", "new/1", "new/deep/", "new/deep/2"}
    assert tree(gateway) == (moved | {"old/", "old/1", "old/deep/", "old/deep/2"} if action == "COPY" else moved)


@pytest.mark.parametrize("action", ["MOVE", "COPY"])
@pytest.mark.parametrize(
    ("source", "target", "code"),
    [
        ("a", "/a/b", "not-possible"),
        ("a", "/a", "not-possible"),
        ("a/file", "/a/file", "not-possible"),
        ("a/file", "/", "not-possible"),
        ("", "/b", "not-possible"),
        ("gone", "/b", "not-found"),
        ("a/file", "/a/file/below", "not-possible"),
        ("a/file", "/other/below", "not-a-folder"),
        ("a/file", "/b/../c", "invalid-path"),
        ("a/file", "/b//c", "invalid-path"),
        ("a/file", "/b\\c", "invalid-path"),
        ("a/file", "/.portico~x", "invalid-path"),
        ("a/file", "/folder", "is-a-folder"),
        ("a", "/other", "already-exists"),
    ],
)
async def test_what_cannot_be_moved_or_copied(
    gateway: Gateway, action: str, source: str, target: str, code: str
) -> None:
    gateway.put("a/file")
    gateway.put("other")
    gateway.put("folder/file")
    before = tree(gateway)
    assert await change(gateway, "POST", source, action=action, target=target) == code
    assert tree(gateway) == before


@pytest.mark.parametrize("action", ["MOVE", "COPY"])
@pytest.mark.parametrize(
    ("on_conflict", "outcome", "files"),
    [
        (None, "/b", {"b": b"a"}),
        ("replace", "/b", {"b": b"a"}),
        ("fail", "already-exists", {"b": b"b"}),
        ("rename", "/b%20(1)", {"b": b"b", "b (1)": b"a"}),
    ],
)
async def test_when_the_target_is_taken(
    gateway: Gateway, action: str, on_conflict: str | None, outcome: str, files: dict[str, bytes]
) -> None:
    gateway.put("a", b"a")
    gateway.put("b", b"b")
    parameters = {"onConflict": on_conflict} if on_conflict else {}
    assert await change(gateway, "POST", "a", action=action, target="/b", **parameters) == outcome
    expected = files | ({"a": b"a"} if action == "COPY" or outcome == "already-exists" else {})
    assert {file.name: file.read_bytes() for file in gateway.files.iterdir()} == expected


@pytest.mark.parametrize("action", ["MOVE", "COPY"])
async def test_nothing_is_renamed_onto_the_root(gateway: Gateway, action: str) -> None:
    gateway.put("a")
    outcome = await change(gateway, "POST", "a", action=action, target="/", onConflict="rename")
    assert outcome == "not-possible"


async def test_a_copy_beside_itself_gets_a_name_of_its_own(gateway: Gateway) -> None:
    gateway.put("a.txt")
    outcome = await change(gateway, "POST", "a.txt", action="COPY", target="/a.txt", onConflict="rename")
    assert outcome == "/a%20(1).txt"
    assert tree(gateway) == {"a.txt", "a (1).txt"}


@pytest.mark.parametrize("action", ["MOVE", "COPY"])
async def test_a_target_is_needed(gateway: Gateway, action: str) -> None:
    gateway.put("a")
    assert await change(gateway, "POST", "a", action=action) == "invalid-request"


@pytest.mark.parametrize(
    ("user", "action", "outcome"),
    [
        ("writer", "COPY", "/new"),
        ("writer", "MOVE", "forbidden"),
        ("reader", "COPY", "forbidden"),
        ("dropper", "COPY", "forbidden"),
        ("dropper", "MOVE", "forbidden"),
    ],
)
async def test_moving_and_copying_need_their_rights(gateway: Gateway, user: str, action: str, outcome: str) -> None:
    gateway.put("a")
    assert await change(gateway, "POST", "a", user, action=action, target="/new") == outcome


async def test_replacing_by_a_copy_needs_the_right_to_overwrite(gateway: Gateway) -> None:
    gateway.put("a", b"a")
    gateway.put("b", b"b")
    for on_conflict, code in (({}, "already-exists"), ({"onConflict": "replace"}, "forbidden")):
        outcome = await change(gateway, "POST", "a", "writer", action="COPY", target="/b", **on_conflict)
        assert outcome == code
    assert (gateway.files / "b").read_bytes() == b"b"


async def test_an_unknown_action_lists_the_known_ones(gateway: Gateway) -> None:
    response = await gateway.call("POST", "a", params={"action": "RENAME"})
    assert (response.status_code, response.json()["code"]) == (400, "invalid-request")
    assert all(action in response.json()["detail"] for action in ("MKDIR", "MOVE", "COPY", "TICKET"))


# DELETE


async def test_a_file_is_deleted(gateway: Gateway) -> None:
    gateway.put("a/file")
    assert await change(gateway, "DELETE", "a/file") == ""
    assert tree(gateway) == {"a/"}


async def test_an_empty_folder_is_deleted(gateway: Gateway) -> None:
    (gateway.files / "a").mkdir()
    assert await change(gateway, "DELETE", "a/") == ""
    assert tree(gateway) == set()


async def test_a_folder_with_content_goes_only_when_that_is_meant(gateway: Gateway) -> None:
    gateway.put("a/b/file")
    assert await change(gateway, "DELETE", "a") == "folder-not-empty"
    assert await change(gateway, "DELETE", "a", recursive="false") == "folder-not-empty"
    assert tree(gateway) == {"a/", "a/b/", "a/b/file"}
    assert await change(gateway, "DELETE", "a", recursive="true") == ""
    assert tree(gateway) == set()
    assert gateway.left_over == []


@pytest.mark.parametrize(
    ("path", "parameters", "code"),
    [
        ("", {}, "not-possible"),
        ("", {"recursive": "true"}, "not-possible"),
        ("gone", {}, "not-found"),
        ("file/below", {}, "not-found"),
        ("file", {"recursive": "yes"}, "invalid-request"),
        ("file", {"recursive": ""}, "invalid-request"),
        ("file", {"recursive": "TRUE"}, "invalid-request"),
    ],
)
async def test_what_cannot_be_deleted(gateway: Gateway, path: str, parameters: dict[str, str], code: str) -> None:
    gateway.put("file")
    assert await change(gateway, "DELETE", path, **parameters) == code
    assert tree(gateway) == {"file"}


@pytest.mark.parametrize("user", ["reader", "writer", "dropper"])
async def test_deleting_needs_the_right_to_overwrite(gateway: Gateway, user: str) -> None:
    gateway.put("file")
    assert await change(gateway, "DELETE", "file", user) == "forbidden"
    assert tree(gateway) == {"file"}
