"""Clients that were generated from the OpenAPI document, in two languages, do what docs/own-client.md shows."""

import os
import subprocess
import sys
from pathlib import Path

from ..gateways import Gateway
from ..servers import npm
from .conftest import Guide

HERE = Path(__file__).parent
SAID = ["/reports/2026/letters.csv 6", "/reports/2026/numbers.csv 6"]


def document(gateway: Gateway, folder: Path) -> str:
    with gateway.client() as client:
        (folder / "openapi.json").write_bytes(client.get("/backend/openapi.json").content)
    return "openapi.json"


def stored(root: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (root / "reports/2026").iterdir()}


def test_python(gateway: Gateway, guide: Guide, root: Path, tmp_path: Path) -> None:
    requirements = HERE / "python" / "requirements.txt"

    def install(place: Path) -> None:
        options = ["--quiet", "--no-deps", "--upgrade", "--target", str(place), "-r", str(requirements)]
        npm.run([sys.executable, "-m", "pip", "install", *options], place)

    packages = npm.kept("openapi-python-client", [requirements], install)
    environment = {**os.environ, "PYTHONPATH": str(packages)}

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning" not in done.stderr.lower()
        return done.stdout

    octets = "content_type_overrides:\n  application/offset+octet-stream: application/octet-stream\n"
    (tmp_path / "config.yaml").write_text(f"post_hooks: []\n{octets}")  # without the hooks, which lint what it made
    python(
        *("-m", "openapi_python_client", "generate", "--path", document(gateway, tmp_path)),
        *("--meta", "none", "--output-path", "portico_api", "--config", "config.yaml"),
    )
    [program] = guide.examples("own-client.md", "python")
    (tmp_path / "program.py").write_text(program)
    assert python("program.py").splitlines() == [*SAID, repr(b"1;2;3\n"), "already-exists"]
    assert stored(root) == {"numbers.csv": b"1;2;3\n", "letters.csv": b"a;b;c\n"}


def test_typescript(gateway: Gateway, guide: Guide, root: Path, tmp_path: Path) -> None:
    packages = npm.installed("openapi-typescript", HERE / "typescript") / "node_modules"
    (tmp_path / "node_modules").symlink_to(packages)
    (tmp_path / "package.json").write_text('{"type": "module"}')

    def node(script: str, *arguments: str) -> str:
        return npm.run([npm.node(), str(packages / script), *arguments], tmp_path)

    node("openapi-typescript/bin/cli.js", document(gateway, tmp_path), "-o", "portico.d.ts")
    [program] = guide.examples("own-client.md", "ts")
    (tmp_path / "program.ts").write_text(program)
    strict = ["--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck"]
    node("typescript/bin/tsc", *strict, "program.ts")
    said = npm.run([npm.node(), "program.js"], tmp_path)
    assert said.splitlines() == [*SAID, "1;2;3", "", "already-exists"]
    assert stored(root) == {"numbers.csv": b"1;2;3\n", "letters.csv": b"a;b;c\n"}
