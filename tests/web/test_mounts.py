"""A tree of several mounts: what is offered in each folder, and where files can go."""

import json
import random
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Route, expect

from portico.api.schemas import mount_bodies
from portico.model.paths import Path as TreePath
from portico.model.paths import Place
from portico.model.reach import Mount, Reach
from portico.model.rights import ALL_RIGHTS, DEFAULT_RIGHTS, Right, held
from portico.web.bundle import join_modules

from ..gateways import Gateway
from .browser_user import BrowserUser
from .conftest import PASSWORD, OpenPage

MOUNTS: dict[str, dict[str, list[str]]] = {
    "member": {"/": list(map(str, DEFAULT_RIGHTS)), "/plans": ["list", "download"], "/deep/drop": ["upload"]},
    "visitor": {"/plans": ["list", "share"], "/deep/drop": ["list", "upload", "delete"]},
}


@pytest.fixture(scope="module", autouse=True)
def users(running: Gateway, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("policy")
    (folder / "password").write_text(PASSWORD)
    policy = {
        name: {
            "password": f"${{file:{folder / 'password'}}}",
            "mounts": {
                path: {"connection": "local", "folder": f"/web{path}", "rights": rights}
                for path, rights in mounts.items()
            },
        }
        for name, mounts in MOUNTS.items()
    }
    (folder / "users.yaml").write_text(json.dumps({"users": policy}))
    running.command("apply", str(folder / "users.yaml"), "--yes", "--existing-folder")


@pytest.fixture
def root(root: Path) -> Path:
    (root / "plans").mkdir()
    (root / "plans" / "plan.txt").write_text("plan")
    (root / "deep" / "drop").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    return root


RULES = """
import { Mounts } from "./api/mounts.js";
globalThis.answers = (trees, rights) => trees.map(([mounts, paths]) => {
  const tree = new Mounts({rights: [], mounts});
  return paths.map((path) => [
    rights.filter((right) => tree.allow(path, right)),
    tree.isWhole(path),
    paths.filter((to) => tree.allowMove(path, to)),
  ]);
});
"""


def test_the_page_reads_a_tree_as_the_gateway_does(browser: Browser) -> None:
    chance = random.Random(27)
    paths = [TreePath.parse(path) for path in ("/", "/a", "/b", "/a/a", "/a/ab", "/b/a", "/a/ab/b")]
    trees = [tree for _ in range(500) if (tree := _some_tree(chance, paths)).rights]
    scripts = files("portico") / "web" / "js"
    modules = {name: (scripts / name).read_text() for name in ("api/mounts.js", "paths.js")}
    page = browser.new_page()
    page.add_script_tag(content=join_modules({**modules, "rules.js": RULES}, "rules.js", {}))
    # What a hidden mount hides, the page does not know.
    known = [[path for path in paths if tree.at(path) or tree.is_virtual(path)] for tree in trees]
    asked = [
        [msgspec.to_builtins(mount_bodies(tree)), list(map(str, places))]
        for tree, places in zip(trees, known, strict=True)
    ]
    answers = page.evaluate("([trees, rights]) => answers(trees, rights)", [asked, list(map(str, Right))])
    page.close()
    for tree, places, answer in zip(trees, known, answers, strict=True):
        assert answer == [_rules(tree, path, places) for path in places], str(tree)


def _some_tree(chance: random.Random, paths: list[TreePath]) -> Reach:
    return Reach(
        Mount(
            path, Place("c", TreePath()), frozenset(chance.sample(sorted(ALL_RIGHTS), chance.choice([0, 1, 4, 5, 6])))
        )
        for path in chance.sample(paths, chance.randint(1, 5))
    )


def _rules(tree: Reach, path: TreePath, places: list[TreePath]) -> list[object]:
    """The rights at a path, whether it can be changed as a whole, and where things can be moved from there."""

    def has(path: TreePath, *rights: Right) -> bool:
        mount = tree.at(path)
        return held(rights) <= (mount.rights if mount else {Right.LIST})

    def moves(to: TreePath) -> bool:
        if tree.at(path) is tree.at(to):
            return has(path, Right.UPLOAD, Right.OVERWRITE)
        return has(path, Right.DOWNLOAD, Right.DELETE) and has(to, Right.UPLOAD)

    mount = tree.at(path)
    begins = not path.is_root and mount is not None and mount.path == path
    return [
        [right for right in Right if has(path, right)],
        not begins and not any(each.rights for each in tree.below(path)),
        [str(to) for to in places if moves(to)],
    ]


def offered(user: BrowserUser, name: str) -> list[str]:
    user.row(name).get_by_role("button", name="Actions for").click()
    items: list[str] = user.page.get_by_role("menuitem").locator("> span").all_text_contents()
    user.press("Escape")
    return items


def wait_for_rights(user: BrowserUser, path: str, rights: set[str]) -> None:
    """Wait until the gateway grants the page's own token these rights; it caches each token's for a moment."""
    token = user.page.evaluate("() => JSON.parse(sessionStorage['portico.session']).access")

    def granted() -> bool:
        answer = client.get("/backend/session")
        assert answer.status_code == 200, answer.text
        return next(set(mount["rights"]) for mount in answer.json()["mounts"] if mount["path"] == path) == rights

    with user.gateway.client(headers={"Authorization": f"Bearer {token}"}) as client:
        user.wait_until(granted)


def test_each_folder_offers_what_it_allows(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    user = open_page(gateway)
    user.sign_in("member", PASSWORD)
    user.expect_names("deep", "plans", "a.txt")
    upload = user.page.get_by_role("button", name="Upload", exact=True)
    mark = user.page.get_by_role("img", name="Separate folder")
    expect(mark).to_have_count(1)
    expect(user.row("plans")).to_contain_text("plans")
    assert offered(user, "a.txt") == [
        "Preview",
        "Download",
        "Copy link",
        "Details",
        "Activity",
        "Rename",
        "Move",
        "Copy",
        "Delete",
    ]
    # What is kept in several places cannot be changed as a whole.
    assert offered(user, "deep") == offered(user, "plans") == ["Open", "Download", "Copy link", "Details", "Activity"]
    user.check_access()
    user.open("plans")
    expect(upload).to_have_count(0)
    assert offered(user, "plan.txt") == ["Preview", "Download", "Copy link", "Details", "Activity", "Copy"]
    # A copy can go elsewhere.
    user.act("plan.txt", "Copy")
    here = user.dialog.get_by_role("button", name="Copy here")
    expect(here).to_be_disabled()
    user.dialog.get_by_role("button", name="Parent folder").click()
    here.click()
    expect(user.page.locator(".notice")).to_contain_text("copied")
    assert (root / "plan.txt").read_text() == "plan"

    def with_storage(route: Route) -> None:
        body = route.fetch().json()
        body["mounts"] = [{**mount, "connection": f"of {mount['path']}"} for mount in body["mounts"]]
        route.fulfill(json=body)

    # Rights that change are noticed when the reader comes back, and so is that storage is shown.
    gateway.command("mount", "set", "member", "/plans", "--rights", "list,download,upload,delete")
    user.page.route("**/backend/session", with_storage)
    wait_for_rights(user, "/plans", {"list", "download", "upload", "delete"})
    user.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(upload).to_be_visible()
    user.wait_until(lambda: offered(user, "plan.txt")[-3:] == ["Move", "Copy", "Delete"])
    user.act("plan.txt", "Details")
    expect(user.dialog.locator(".facts-list > div", has_text="Kept in").locator("dd")).to_have_text("of /plans")
    # … and when something is refused.
    gateway.command("mount", "set", "member", "/plans", "--rights", "list")
    wait_for_rights(user, "/plans", {"list"})
    user.press("Escape")
    user.expect_refusal(403)
    user.act("plan.txt", "Download")
    expect(upload).to_have_count(0)
    user.wait_until(lambda: offered(user, "plan.txt") == ["Copy link", "Details", "Activity"])


def test_a_user_without_a_root_sees_a_list_of_folders(open_page: OpenPage, gateway: Gateway, root: Path) -> None:
    user = open_page(gateway)
    user.sign_in("visitor", PASSWORD)
    user.expect_names("deep", "plans")
    expect(user.page.get_by_role("toolbar", name="Folder actions").get_by_role("button")).to_have_count(0)
    # No kind of link can be made with `list` and `share` alone.
    assert offered(user, "deep") == offered(user, "plans") == ["Open", "Copy link", "Details", "Activity"]
    user.drop(root / "a.txt")
    expect(user.page.locator(".notice")).to_have_text(
        "You can't add files to this folder. You can add them to: /deep/drop"
    )
    user.open("deep")
    user.open("drop")
    user.drop(root / "a.txt")
    user.expect_names("a.txt")
    assert (root / "deep" / "drop" / "a.txt").read_text() == "a"
    assert offered(user, "a.txt") == ["Copy link", "Details", "Activity", "Delete"]
