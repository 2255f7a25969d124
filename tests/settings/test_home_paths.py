"""Paths of options, as they are stored and as they are used."""

from pathlib import Path

import pytest

from portico.accounts.connections import HomePaths
from portico.providers.contract.registry import KINDS, PATH_OPTIONS
from portico.settings.settings import Settings


def paths(home: Path, *, keep_relative: bool = True) -> HomePaths:
    return HomePaths(str(home), PATH_OPTIONS, keep_relative=keep_relative)


@pytest.mark.parametrize("option", sorted(PATH_OPTIONS))
@pytest.mark.parametrize("inside", ["files", "files/deep/er", "."])
def test_what_is_inside_the_home_moves_with_it(tmp_path: Path, option: str, inside: str) -> None:
    old, new = paths(tmp_path / "old"), paths(tmp_path / "new")
    kept = old.stored({option: str(tmp_path / "old" / inside), "bucket": "b"})
    assert kept == {option: inside, "bucket": "b"}
    assert old.stored(kept) == kept
    assert new.resolved(kept) == {option: str(tmp_path / "new" / inside), "bucket": "b"}


@pytest.mark.parametrize("outside", ["/srv/files", "/srv/home-two/files", "/"])
def test_what_is_outside_stays_as_it_is(outside: str) -> None:
    home = paths(Path("/srv/home"))
    assert home.resolved(home.stored({"folder": outside})) == {"folder": outside}
    assert home.stored({"folder": outside}) == {"folder": outside}


def test_a_name_that_only_looks_like_a_path_is_left_alone(tmp_path: Path) -> None:
    home = paths(tmp_path)
    options = {"prefix": str(tmp_path / "x"), "bucket": "files"}
    assert home.stored(options) == options
    assert home.resolved(options) == options


def test_a_home_behind_a_link_is_the_same_home(tmp_path: Path) -> None:
    (tmp_path / "disk" / "files").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    home = paths(tmp_path / "link")
    assert home.stored({"folder": str(tmp_path / "disk" / "files")}) == {"folder": "files"}
    assert home.stored({"folder": str(tmp_path / "link" / "files")}) == {"folder": "files"}


def test_a_link_inside_the_home_is_a_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "disk").mkdir()
    (tmp_path / "home" / "files").symlink_to(tmp_path / "disk")
    home = paths(tmp_path / "home")
    assert home.stored({"folder": str(tmp_path / "home" / "files")}) == {"folder": "files"}
    assert home.stored({"folder": str(tmp_path / "disk")}) == {"folder": str(tmp_path / "disk")}


def test_nodes_that_share_a_database_elsewhere_keep_whole_paths(tmp_path: Path) -> None:
    folder = {"folder": str(tmp_path / "files")}
    assert paths(tmp_path, keep_relative=False).stored(folder) == folder
    assert paths(tmp_path, keep_relative=False).resolved({"folder": "files"}) == folder


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("", True),
        ("sqlite:////srv/home/other.db?x=1", True),
        ("sqlite:////srv/elsewhere.db", False),
        ("sqlite:///relative.db", False),
        ("postgresql://h/d", False),
    ],
)
def test_whether_the_database_moves_with_the_home(url: str, inside: bool) -> None:
    chosen = Settings(home=Path("/srv/home"), database=url)
    assert chosen.database_in_home is inside


def test_every_option_that_names_a_path_is_an_option() -> None:
    assert set().union(*(kind.options for kind in KINDS.values())) >= PATH_OPTIONS
