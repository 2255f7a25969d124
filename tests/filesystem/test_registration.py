"""fsspec knows `portico://` without registration, and it costs nothing unless it is used."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import portico

PROJECT = tomllib.loads((Path(portico.__file__).parents[2] / "pyproject.toml").read_text())["project"]


def python(script: str, *paths: Path) -> str:
    search = os.pathsep.join(map(str, [*paths, Path(portico.__file__).parents[1]]))
    environment = {**os.environ, "PYTHONPATH": search}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def test_fsspec_finds_it_by_the_entry_point(tmp_path: Path) -> None:
    # As an installer writes it, so that the test does not depend on what is installed here.
    installed = tmp_path / "portico_gateway-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: portico-gateway\nVersion: 0\n")
    rows = PROJECT["entry-points"]["fsspec.specs"].items()
    lines = ["[fsspec.specs]", *(f"{name} = {value}" for name, value in rows)]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    found = python("import fsspec; print(fsspec.get_filesystem_class('portico'))", tmp_path)
    assert found == "<class 'portico.filesystem.filesystem.PorticoFileSystem'>\n"


def test_it_can_be_imported_where_there_are_no_forks() -> None:
    script = "import fsspec, os; del os.register_at_fork; import portico.filesystem as it; print(it.__name__)"
    assert python(script) == "portico.filesystem\n"


def test_it_imports_nothing_of_the_server_and_the_client_nothing_of_it() -> None:
    script = "import portico.filesystem, sys; print([name for name in sys.modules if 'portico' in name])"
    loaded = eval(python(script))
    assert {name.split(".")[1] for name in loaded if "." in name} == {"client", "filesystem"}
    assert "portico.client.async_client" not in loaded
    assert python("from portico import Client; import sys; print('fsspec' in sys.modules)") == "False\n"


def test_the_extra_brings_fsspec() -> None:
    assert [need.partition(">")[0] for need in PROJECT["optional-dependencies"]["fsspec"]] == ["fsspec"]
