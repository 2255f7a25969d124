"""The client alone: what it imports, and what the command says where the server is not installed."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import portico
from portico.cli import main

SERVER = (
    *main.SERVER_MODULES,
    "portico.accounts",
    "portico.api",
    "portico.drive.drive",
    "portico.providers",
    "portico.settings.settings",
    "portico.store",
)

GONE = "import os; os.environ |= {'PORTICO_URL': 'http://127.0.0.1:1', 'PORTICO_TOKEN': 'x'}"


def loaded(script: str) -> list[str]:
    """Which parts of the server a script has imported."""
    script += f"\nimport sys; print([name for name in {SERVER!r} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    names: list[str] = eval(done.stderr.splitlines()[-1])
    return names


def test_the_client_imports_nothing_of_the_server() -> None:
    assert (
        loaded(
            f"""
import portico
import portico.client
from portico import Client, AsyncClient
from portico.cli.main import run
{GONE}
for words in ("--help", "--version", "put --help", "ls", "get /x", "completion --line=portico\\ user\\ "):
    run(words.split())
"""
        )
        == []
    )


def test_the_look_finds_what_is_there() -> None:
    assert "portico.api" in loaded("import portico.api.problems")


def test_importing_the_package_loads_no_client() -> None:
    script = "import portico, sys; assert 'portico.client' not in sys.modules; assert 'ssl' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def bare(script: str) -> "subprocess.CompletedProcess[str]":
    """Run a script with nothing installed beside Portico itself."""
    environment = {**os.environ, "PYTHONPATH": str(Path(portico.__file__).parents[1])}
    arguments = [sys.executable, "-S", "-c", script]
    return subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)


def test_without_the_server_its_commands_say_how_to_get_it() -> None:
    commands = ("serve", "user list", "connection --help", "config check")
    done = bare(f"from portico.cli.main import run; print([run(words.split()) for words in {commands!r}])")
    assert done.stdout == "[1, 1, 1, 1]\n"
    assert len(sentences := done.stderr.splitlines()) == 4
    assert all("pip install 'portico-gateway[server]'" in sentence for sentence in sentences)


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
