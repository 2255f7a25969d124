"""Imports only point down."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import portico
from portico.providers.registry import KINDS

SOURCE = Path(portico.__file__).parent

GROUND = {
    *("settings", "setting_parsers", "setting_sources"),
    *("timestamps", "logs", "audit", "metrics", "worker_metrics"),
    *("cursors", "entries", "paths", "rights", "errors", "single_flight", "clock", "tracing", "processes"),
    *("fair_turns", "sockets", "tally", "thread_pool", "visible_text", "zip_format"),
}
LAYERS: list[set[str]] = [
    {"cli", "__main__"},
    {"app"},
    {"bootstrap"},
    {"api"},
    {"web"},
    {"operations"},
    {
        "drives",
        "drive",
        "drive_trash",
        "drive_errors",
        "drive_walk",
        "name_conflicts",
        "listing_order",
        "instrumented",
    },
    {"providers"},
    {"accounts"},
    {"store"},
    GROUND,
    {"", "version"},
    {"filesystem"},
    {"client"},
]
"""From top to bottom, by the first name below `portico`.

The package itself, with its version, is below the whole server. It exports the client, which imports nothing else; the
filesystem imports the client.
"""

FORBIDDEN: dict[str, set[str]] = {
    "api": {
        *("settings", "cli", "app", "audit", "accounts", "store", "providers"),
        *(
            "drive",
            "drive_trash",
            "drive_errors",
            "drive_walk",
            "drives",
            "name_conflicts",
            "listing_order",
            "instrumented",
        ),
    },
    "operations": {"settings", "providers", "instrumented", "name_conflicts"},
    "providers": {"accounts", "store", "settings", "api", "drive", "drives"},
    "accounts": {"drive", "drives", "providers", "settings"},
    "store": {"accounts", "settings", "providers"},
}
READERS_OF_SETTINGS = {"cli", "app", "bootstrap", "settings"}
CONCRETE = {kind.implementation.split(".")[2].partition(":")[0] for kind in KINDS.values()}
"""The packages below `portico.providers` that hold one service each; the other modules are shared."""

MODULES = sorted(SOURCE.rglob("*.py"))


def dotted(file: Path) -> str:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {dotted(file) for file in MODULES}


@cache
def imports(file: Path) -> tuple[str, ...]:
    """The absolute name of every imported module, including imports within functions and conditions."""
    return tuple(_imports(file))


def _imports(file: Path) -> Iterator[str]:
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


def test_imports_point_down() -> None:
    for file in MODULES:
        name = dotted(file)
        up = [module for module in inner_imports(file) if rank(module) < rank(name)]
        assert up == [], name
        forbidden = FORBIDDEN.get(first_name(name), set())
        assert [module for module in inner_imports(file) if first_name(module) in forbidden] == [], name


def test_the_lowest_layer_has_no_import_cycles() -> None:
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


def test_only_the_api_speaks_http() -> None:
    for layer in ("providers", "accounts", "store", "operations", *sorted(LAYERS[6] | GROUND)):
        files = [file for file in MODULES if first_name(dotted(file)) == layer]
        assert files, layer
        for file in files:
            used = {module.split(".")[0] for module in imports(file)}
            assert not {"starlette", "granian", "http"} & used, dotted(file)
