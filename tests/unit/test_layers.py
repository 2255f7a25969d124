"""An import only ever points down."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import portico
from portico.providers.registry import KINDS

SOURCE = Path(portico.__file__).parent

GROUND = {
    *("settings", "notation", "timestamps", "logs", "audit", "metrics", "scoreboard"),
    *("cursors", "entries", "paths", "rights", "errors", "joint"),
}
LAYERS: list[set[str]] = [
    {"cli", "__main__"},
    {"app"},
    {"api"},
    {"web"},
    {"drives", "drive", "renaming", "measured"},
    {"providers"},
    {"accounts"},
    {"store"},
    GROUND,
    {""},
    {"filesystem"},
    {"client"},
]
"""From top to bottom, by the first name below `portico`.

The package itself, with its version, is below all of the server. It hands out the client, which stands on nothing; the
filesystem stands on the client.
"""

FORBIDDEN = {
    "api": {"settings", "cli", "app"},
    "providers": {"accounts", "store", "settings", "api", "drive", "drives"},
    "accounts": {"drive", "drives", "providers", "settings"},
    "store": {"accounts", "settings", "providers"},
}
READERS_OF_SETTINGS = {"cli", "app", "settings"}
CONCRETE = {kind.implementation.split(".")[2].partition(":")[0] for kind in KINDS.values()}
"""The modules below `portico.providers` that are one service each; what the others hold is shared."""

MODULES = sorted(SOURCE.rglob("*.py"))


def dotted(file: Path) -> str:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {dotted(file) for file in MODULES}


def imports(file: Path) -> Iterator[str]:
    """Every module that is imported anywhere in the file, absolutely named, under a function or a condition too."""
    package = dotted(file) if file.name == "__init__.py" else dotted(file).rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in NAMES else base


def first_name(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def rank(module: str) -> int:
    return next(index for index, layer in enumerate(LAYERS) if first_name(module) in layer)


def inner_imports(file: Path) -> list[str]:
    return [module for module in imports(file) if module.split(".")[0] == "portico"]


def test_every_module_has_a_layer() -> None:
    known = set().union(*LAYERS)
    assert {first_name(name) for name in NAMES} == known


@pytest.mark.parametrize("file", MODULES, ids=dotted)
def test_imports_point_down(file: Path) -> None:
    up = [module for module in inner_imports(file) if rank(module) < rank(dotted(file))]
    assert up == []
    forbidden = FORBIDDEN.get(first_name(dotted(file)), set())
    assert [module for module in inner_imports(file) if first_name(module) in forbidden] == []


def test_the_ground_stands_on_itself() -> None:
    order: dict[str, set[str]] = {
        first_name(dotted(file)): {first_name(module) for module in inner_imports(file)} - {""}
        for file in MODULES
        if first_name(dotted(file)) in GROUND
    }
    while free := [name for name, needs in order.items() if not needs & order.keys()]:
        for name in free:
            del order[name]
    assert order == {}, "these import each other in a circle"


def test_only_the_command_and_the_composition_root_read_settings() -> None:
    readers = {first_name(dotted(file)) for file in MODULES if "portico.settings" in imports(file)}
    assert readers <= READERS_OF_SETTINGS
    assert readers >= {"cli", "app"}


def test_no_one_names_a_concrete_provider() -> None:
    named = {
        (dotted(file), module)
        for file in MODULES
        if first_name(dotted(file)) != "providers"
        for module in inner_imports(file)
        if set(module.split(".")[2:3]) & CONCRETE and first_name(module) == "providers"
    }
    assert named == set()


def test_the_api_does_not_import_providers() -> None:
    api = [file for file in MODULES if first_name(dotted(file)) == "api"]
    assert api
    for file in api:
        assert "providers" not in {first_name(module) for module in inner_imports(file)}


def test_the_client_and_the_server_do_without_each_other() -> None:
    for file in MODULES:
        reached = {first_name(module) for module in inner_imports(file)}
        if first_name(dotted(file)) == "client":
            assert reached <= {"client"}, dotted(file)
            assert {module.split(".")[0] for module in imports(file)} <= {"portico", *sys.stdlib_module_names}
        elif first_name(dotted(file)) == "filesystem":
            assert reached <= {"filesystem", "client"}, dotted(file)
        elif first_name(dotted(file)) not in ("", "cli"):
            assert not {"client", "filesystem"} & reached, dotted(file)


def test_providers_do_not_know_each_other() -> None:
    assert "local" in CONCRETE
    for file in MODULES:
        if first_name(dotted(file)) == "providers":
            own = set(dotted(file).split(".")[2:3])
            reached = {m.split(".")[2] for m in inner_imports(file) if m.startswith("portico.providers.")}
            assert reached & CONCRETE <= own, dotted(file)


@pytest.mark.parametrize("layer", ["providers", "accounts", "store", *sorted(LAYERS[4] | GROUND)])
def test_only_the_api_speaks_http(layer: str) -> None:
    files = [file for file in MODULES if first_name(dotted(file)) == layer]
    assert files
    for file in files:
        assert not {"starlette", "granian", "http"} & {module.split(".")[0] for module in imports(file)}
