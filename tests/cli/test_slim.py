"""The client alone: what it imports, and what the command says where the server is not installed."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import portico
from portico.cli import main

SERVER = (
    *main.SERVER_MODULES,
    "portico.accounts",
    "portico.api",
    "portico.drive",
    "portico.providers",
    "portico.settings",
    "portico.store",
)

GONE = "import os; os.environ |= {'PORTICO_URL': 'http://127.0.0.1:1', 'PORTICO_TOKEN': 'x'}"


def loaded(script: str) -> list[str]:
    """Which parts of the server a script has imported."""
    script += f"\nimport sys; print([name for name in {SERVER!r} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    names: list[str] = eval(done.stderr.splitlines()[-1])
    return names


@pytest.mark.parametrize(
    "script",
    [
        "import portico",
        "import portico.client",
        "from portico import Client, AsyncClient",
        "from portico.cli.main import run; run(['--help'])",
        "from portico.cli.main import run; run(['--version'])",
        "from portico.cli.main import run; run(['put', '--help'])",
        f"from portico.cli.main import run; {GONE}; run(['ls'])",
        f"from portico.cli.main import run; {GONE}; run(['get', '/x'])",
    ],
)
def test_the_client_imports_nothing_of_the_server(script: str) -> None:
    assert loaded(script) == []


def test_the_look_finds_what_is_there() -> None:
    assert "portico.api" in loaded("import portico.api.problems")


def test_importing_the_package_loads_no_client() -> None:
    script = (
        "import portico, sys; assert 'portico.client' not in sys.modules; assert 'ssl' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def bare(script: str) -> "subprocess.CompletedProcess[str]":
    """Run a script with nothing installed beside Portico itself."""
    environment = {**os.environ, "PYTHONPATH": str(Path(portico.__file__).parents[1])}
    arguments = [sys.executable, "-S", "-c", script]
    return subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize(
    "arguments", [["serve"], ["user", "list"], ["connection", "--help"], ["config", "check"]]
)
def test_without_the_server_its_commands_say_how_to_get_it(arguments: list[str]) -> None:
    done = bare(f"import sys; from portico.cli.main import run; sys.exit(run({arguments!r}))")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "pip install 'portico-gateway[server]'" in done.stderr


def test_without_the_server_the_client_is_there() -> None:
    done = bare("from portico import AsyncClient, Client; print(Client('https://files.example.com'))")
    assert (done.returncode, done.stderr) == (0, "")


def test_without_anything_the_commands_of_the_client_run() -> None:
    script = f"import sys; from portico.cli.main import run; {GONE}; sys.exit(run(['ls']))"
    done = bare(script)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (5, "", 1)


def test_listing_loads_no_key_ring_and_no_rich() -> None:
    script = f"from portico.cli.main import run; {GONE}; run(['ls'])"
    script += "; import sys; assert not {'keyring', 'rich', 'asyncio', 'getpass'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", script], check=True, stderr=subprocess.DEVNULL)


def test_the_modules_of_the_server_are_those_of_its_extra() -> None:
    brought = metadata.packages_distributions()
    assert all(module in brought for module in main.SERVER_MODULES)
