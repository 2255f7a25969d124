import pytest

from portico.model.errors import InvalidPath
from portico.model.paths import Path, Place
from portico.model.reach import Mount, MountRule, Reach, reach_of
from portico.model.rights import ALL_RIGHTS, Right, parse_rights


def at(text: str) -> Path:
    return Path.parse(text)


def mount(path: str, place: str, rights: str = "list download") -> Mount:
    connection, slash, folder = place.partition("/")
    return Mount(at(path), Place(connection, at(slash + folder)), parse_rights(rights))


COMPANY = Reach(
    [
        mount("/", "disk/home"),
        mount("/hr", "disk/home/hr", "list"),
        mount("/projects/a/plans", "bucket/a"),
        mount("/secret", "disk/none", ""),
    ]
)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/", "disk/home"),
        ("/x/y", "disk/home/x/y"),
        ("/hr", "disk/home/hr"),
        ("/hr/x", "disk/home/hr/x"),
        ("/hrx", "disk/home/hrx"),
        ("/projects/a", "disk/home/projects/a"),
        ("/projects/a/plans/x", "bucket/a/x"),
    ],
)
def test_the_longest_matching_path_wins(path: str, place: str) -> None:
    found = COMPANY.at(at(path))
    assert found
    assert str(found.place_of(at(path))) == place
    assert found.path_of(found.place_of(at(path))) == at(path)


def test_without_a_mount_at_the_top_folders_are_virtual() -> None:
    reach = Reach([mount("/a/b", "disk/x"), mount("/c", "disk/y"), mount("/d/hidden", "disk/z", "")])
    assert reach.at(Path()) is None
    assert reach.at(at("/a")) is None
    assert reach.at(at("/e/f")) is None
    assert reach.names_in(Path()) == {"a": True, "c": True}
    assert reach.names_in(at("/d")) == {"hidden": False}
    assert [str(path) for path in map(at, ("/", "/a", "/d", "/e")) if reach.is_virtual(path)] == ["/", "/a"]
    assert reach.names_in(at("/a")) == {"b": True}
    assert not reach.names_in(at("/c"))
    assert [str(each.path) for each in reach.below(Path())] == ["/a/b", "/c", "/d/hidden"]
    assert not list(reach.below(at("/c")))


def test_a_folder_as_the_whole_tree() -> None:
    within = COMPANY.limited_to(at("/projects"), parse_rights("list upload"))
    assert within == Reach([mount("/", "disk/home/projects", "list"), mount("/a/plans", "bucket/a", "list")])
    assert COMPANY.limited_to(at("/hr/x"), ALL_RIGHTS).is_simple
    assert not Reach([mount("/a", "disk/x")]).limited_to(at("/b"), ALL_RIGHTS).mounts


def test_other_spellings_of_a_mount_point() -> None:
    root = COMPANY.at(Path())
    assert COMPANY.spelled(at("/HR/X")) == (at("/hr/X"), root)
    assert COMPANY.spelled(at("/Projects/A/Plans/b")) == (at("/projects/a/plans/b"), root)
    assert COMPANY.spelled(at("/Projects/A/b")) == (at("/projects/a/b"), root)
    for path in ("/hr/HR", "/projects/a", "/projects/A2", "/other"):
        assert COMPANY.spelled(at(path)) is None or path == "/projects/A2"
    both = Reach([mount("/", "disk/"), mount("/a", "disk/x"), mount("/A/b", "disk/y")])
    assert both.spelled(at("/A/c")) == (at("/a/c"), both.at(Path())), "a mount point goes before what leads to one"
    assert both.spelled(at("/A/b/c")) is None


def test_where_a_place_is_in_the_tree() -> None:
    reach = Reach([mount("/all", "disk/"), mount("/mine", "disk/a"), mount("/all/a/b", "bucket/b")])
    assert [str(path) for path, _ in reach.paths_of(Place("disk", at("/a/x")))] == ["/mine/x", "/all/a/x"]
    assert [str(path) for path, _ in reach.paths_of(Place("disk", at("/a/b/x")))] == ["/mine/b/x"]
    assert not list(reach.paths_of(Place("other", at("/a"))))


def rule(path: str, place: str, rights: str = "list") -> MountRule:
    connection, slash, folder = place.partition("/")
    return MountRule(at(path), connection, slash + folder, parse_rights(rights))


def test_a_users_own_mount_wins_and_then_the_earlier_group() -> None:
    groups = [
        ("staff", [rule("/", "disk/staff"), rule("/home", "disk/home/{user}")]),
        ("sales", [rule("/", "disk/sales"), rule("/home", "disk/x"), rule("/team", "bucket/{group}/of-{user}")]),
    ]
    reach = reach_of("anna", [rule("/", "disk/anna", "share")], groups)
    assert [(str(each.path), str(each.place), each.group) for each in reach.mounts] == [
        ("/", "disk/anna", None),
        ("/home", "disk/home/anna", "staff"),
        ("/team", "bucket/sales/of-anna", "sales"),
    ]
    assert reach.rights == {Right.SHARE, Right.LIST}


@pytest.mark.parametrize("folder", ["/{usr}", "/{group}", "/{}", "/{user}/{USER}"])
def test_an_unknown_placeholder_is_refused(folder: str) -> None:
    with pytest.raises(InvalidPath):
        reach_of("anna", [rule("/", f"disk{folder}")], [])


@pytest.mark.parametrize("name", ["..", "a/b", ".portico~x", "a\\b", ""])
def test_a_name_never_becomes_more_than_a_segment(name: str) -> None:
    with pytest.raises(InvalidPath):
        reach_of(name, [rule("/", "disk/home/{user}")], [])


def test_only_equal_trees_have_the_same_text() -> None:
    assert str(Reach.of(Place("disk", at("/a")), parse_rights("list"))) == "disk/a\nlist"
    one, other = Reach([mount("/a", "b/c")]), Reach([mount("/ab", "/c")])
    assert str(one) != str(other)
    assert str(one) == str(Reach([Mount(at("/a"), Place("b", at("/c")), one.rights, "staff")]))
