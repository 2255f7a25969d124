"""Imports only point down, and never in a circle."""

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import portico
from portico.providers.contract.registry import KINDS

SOURCE = Path(portico.__file__).parent

LAYERS = (
    *("client", "filesystem"),
    *("model", "runtime", "observability", "store", "accounts", "providers", "drive", "operations"),
    *("web", "api", "settings", "server", "cli"),
)
"""From the bottom to the top. The two first are the other side of the wire: of the others, only `cli` imports them."""
FORBIDDEN: dict[str, set[str]] = {
    "api": {"observability.audit", "store", "accounts", "providers", "drive"},
    "operations": {"providers", "drive.instrumented", "drive.free_names"},
    "providers": {"accounts", "store"},
}
"""What a layer must not import although it is below."""
READERS_OF_SETTINGS = {"settings", "server", "cli"}
SQL = {"sqlalchemy", "psycopg", "sqlite3", "aiosqlite", "alembic"}
WITH_SQL = {"portico.cli.remote.transfer_record": {"sqlite3"}}
"""What `portico sync` remembers is in a file of the client: the store is the gateway's."""
ONLY_WITH_HTTP = {"starlette", "granian", "http"}
SHARED = {"contract", "wire", "multipart", "objects", "folders", "azure_common"}
CONCRETE = {kind.implementation.split(".")[2] for kind in KINDS.values()}
"""The packages below `portico.providers` that hold one service each."""

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
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: imports are absolute"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in NAMES else node.module or ""


def layer(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def room(module: str) -> str:
    """The folder that a module is in, at most two levels down."""
    parts = module.split(".")
    if layer(module) in ("client", "filesystem"):
        return f"portico.{layer(module)}"
    depth = 3 if len(parts) > 3 or (len(parts) == 3 and (SOURCE / parts[1] / parts[2]).is_dir()) else 2
    return ".".join(parts[:depth])


def inner_imports(file: Path) -> list[str]:
    return [module for module in imports(file) if module.split(".")[0] == "portico"]


def circle(graph: Mapping[str, set[str]]) -> set[str]:
    """What is left once all that depends on nothing else is taken away, again and again."""
    left = {name: needs - {name} for name, needs in graph.items()}
    while free := {name for name, needs in left.items() if not needs & left.keys()}:
        left = {name: needs for name, needs in left.items() if name not in free}
    return set(left)


def test_nothing_lies_loose_at_the_top() -> None:
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "__main__.py"}
    assert {layer(name) for name in NAMES} - {"", "__main__"} == set(LAYERS)


def test_imports_point_down() -> None:
    for file in MODULES:
        name = dotted(file)
        if layer(name) in LAYERS:
            rank = LAYERS.index(layer(name))
            above = [module for module in inner_imports(file) if layer(module) in LAYERS[rank + 1 :]]
            assert above == [], name
            forbidden = FORBIDDEN.get(layer(name), set())
            parts = [module.removeprefix("portico.") for module in inner_imports(file)]
            assert [part for part in parts if any(f"{part}.".startswith(f"{each}.") for each in forbidden)] == [], name


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = {dotted(file): set(inner_imports(file)) for file in MODULES}
    assert circle({name: needs for name, needs in graph.items() if layer(name)}) == set()


def test_packages_do_not_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for file in MODULES:
        if layer(dotted(file)) in LAYERS:
            graph.setdefault(room(dotted(file)), set()).update(map(room, inner_imports(file)))
    assert circle(graph) == set()


def test_packages_say_what_they_are_for() -> None:
    public = {"portico", "portico.client", "portico.filesystem", "portico.web"}
    for file in SOURCE.rglob("__init__.py"):
        body = ast.parse(file.read_bytes()).body
        assert ast.get_docstring(ast.parse(file.read_bytes())), dotted(file)
        assert len(body) == 1 or dotted(file) in public, dotted(file)


def test_only_the_command_and_the_server_read_settings() -> None:
    readers = {layer(dotted(file)) for file in MODULES if any(layer(m) == "settings" for m in imports(file))}
    assert readers == READERS_OF_SETTINGS


def test_no_one_names_a_concrete_provider() -> None:
    named = {
        (dotted(file), module)
        for file in MODULES
        if layer(dotted(file)) != "providers"
        for module in inner_imports(file)
        if layer(module) == "providers" and set(module.split(".")[2:3]) & CONCRETE
    }
    assert named == set()


def test_the_client_and_the_server_do_without_each_other() -> None:
    for file in MODULES:
        reached = {layer(module) for module in inner_imports(file)}
        if layer(dotted(file)) == "client":
            assert reached <= {"client"}, dotted(file)
            assert {module.split(".")[0] for module in imports(file)} <= {"portico", *sys.stdlib_module_names}
        elif layer(dotted(file)) == "filesystem":
            assert reached <= {"filesystem", "client"}, dotted(file)
        elif layer(dotted(file)) not in ("", "cli"):
            assert not {"client", "filesystem"} & reached, dotted(file)


def test_providers_do_not_know_each_other() -> None:
    folders = {path.name for path in (SOURCE / "providers").iterdir() if (path / "__init__.py").exists()}
    assert folders == CONCRETE | SHARED
    for file in MODULES:
        if layer(dotted(file)) == "providers":
            own = set(dotted(file).split(".")[2:3])
            reached = {m.split(".")[2] for m in inner_imports(file) if m.startswith("portico.providers.")}
            assert reached & CONCRETE <= own, dotted(file)


def test_only_the_api_speaks_http() -> None:
    for file in MODULES:
        if layer(dotted(file)) in LAYERS[LAYERS.index("model") : LAYERS.index("web")]:
            used = {module.split(".")[0] for module in imports(file)}
            assert not ONLY_WITH_HTTP & used, dotted(file)


def test_sql_is_in_the_store_only() -> None:
    for file in MODULES:
        if layer(dotted(file)) != "store":
            used = {module for module in imports(file) if module.split(".")[0] in SQL}
            used |= {module for module in imports(file) if module == "portico.store.tables"}
            assert used <= WITH_SQL.get(dotted(file), set()), dotted(file)
