"""The steps of docs/cluster.md from nothing to two nodes, run in their order.

The machines are folders, systemd is this test, and names and addresses are those of this machine.
"""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from portico.settings.sources import variables

from ..clusters import Node
from ..gateways import WAIT, free_port, wait_until
from ..servers import apt, haproxy
from ..servers.moto_s3 import KEYS, moto_s3
from ..servers.postgres import PostgresServer, running_postgres
from ..servers.s3_buckets import make_buckets
from .conftest import DOCS

BUCKET = "portico-files"
DEPLOY = DOCS.parent / "deploy"


def steps() -> list[tuple[str, str, str]]:
    """The heading, the language and the text of each block."""
    page = (DOCS / "cluster.md").read_text()
    recipe = page[page.index("## From nothing to two nodes") : page.index("## What must be equal")]
    found = []
    for section in re.split(r"^### ", recipe, flags=re.MULTILINE)[1:]:
        heading = section.partition("\n")[0]
        for language, text in re.findall(r"^```(\w+)\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
            found.append((heading, language, text))
    return found


class Machine:
    def __init__(self, folder: Path) -> None:
        self.etc = folder / "etc"
        (folder / "node").mkdir(parents=True)
        self.node = Node(folder / "node" / "home", "--workers", "1")

    def start(self) -> None:
        """As the unit does it."""
        file = self.etc / "environment"
        self.node.settings = {**variables(file.read_text()), "PORTICO_SECRET_KEY_FILE": str(self.etc / "secret.key")}
        self.node.start()
        wait_until(self.node.ready, "the node is ready")

    def admin(self) -> str:
        """The script portico-admin, for this machine."""
        script = (DEPLOY / "systemd" / "portico-admin").read_text()
        command = '["runuser", "-u", "portico", "--", "/opt/portico/bin/portico"]'
        for there, here in {
            '"/etc/portico"': repr(str(self.etc)),
            '"/var/lib/portico"': repr(str(self.node.home)),
            command: repr([sys.executable, "-m", "portico"]),
        }.items():
            assert there in script
            script = script.replace(there, here)
        return script


class Recipe:
    def __init__(self, folder: Path, database: PostgresServer) -> None:
        self._folder = folder
        self._database = database
        self.machines = [Machine(folder / name) for name in ("one", "two")]
        self._balancer = free_port()
        self._haproxy: subprocess.Popen[bytes] | None = None
        self.said = ""
        (folder / "haproxy").mkdir()
        (folder / "deploy").symlink_to(DEPLOY)
        (folder / "s3-secret").write_text(f"secret-access-key={KEYS['secret-access-key']}\n")
        (folder / "report.pdf").write_text("a report")

    def run(self, heading: str, language: str, text: str) -> None:
        if language == "sql":
            for statement in filter(str.strip, self._real(text).split(";")):
                self._database.execute(statement)
            return
        machine = self.machines["node 2" in heading]
        lines = re.split(r"^((?:systemctl|haproxy) .*\n)", text, flags=re.MULTILINE)
        for piece in filter(str.strip, lines):
            if piece.startswith("haproxy -c"):
                self._check_balancer()
            elif piece == "systemctl restart haproxy\n":
                self._start_balancer()
            elif piece in ("systemctl enable --now portico\n", "systemctl start portico\n"):
                machine.start()
            elif piece == "systemctl stop portico\n":
                assert machine.node.stop() == 0
            else:
                assert not piece.startswith("systemctl"), piece
                self._shell(machine, piece)

    def _shell(self, machine: Machine, script: str) -> None:
        prelude = f"""
        chown() {{ :; }}
        scp() {{ cp "$@"; }}
        portico() {{ "{sys.executable}" -m portico "$@"; }}
        portico-admin() {{ "{sys.executable}" -c "$ADMIN" "$@"; }}
        """
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PORTICO_")}
        environment |= {"ADMIN": machine.admin(), "XDG_CONFIG_HOME": str(self._folder / "config")}
        script = self._real(script.replace("root@node-1:/etc/portico", str(self.machines[0].etc)))
        script = script.replace("/etc/portico", str(machine.etc))
        password = ""
        if "portico login" in script:
            script = script.replace("--user alice", "--user alice --password-stdin")
            [password] = re.findall(r"shown only once: (\S+)", self.said)
        done = subprocess.run(
            ["bash", "-eu", "-c", prelude + script],
            cwd=self._folder,
            env=environment,
            input=password,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        self.said += done.stdout

    def _real(self, text: str) -> str:
        """With the names and addresses of this machine."""
        replaced = {
            "ROLE portico": "ROLE recipe",
            "OWNER portico": "OWNER recipe",
            "DATABASE portico": "DATABASE recipe",
            "portico:PASSWORD@db.example.com/portico?sslmode=verify-full": (
                f"recipe:PASSWORD@127.0.0.1:{self._database.port}/recipe"
            ),
            "https://files.example.com": f"http://127.0.0.1:{self._balancer}",
            "0.0.0.0": "127.0.0.1",
            "10.0.0.5": "127.0.0.1",
            '"5s"': '"1s"',
            "region=eu-central-1": f"region=us-east-1 --option endpoint-url={moto_s3()}",
            "ACCESS-KEY-ID": KEYS["access-key-id"],
            "/etc/haproxy": str(self._folder / "haproxy"),
        }
        for shown, real in replaced.items():
            text = text.replace(shown, real)
        return text

    def _check_balancer(self) -> None:
        file = self._folder / "haproxy" / "haproxy.cfg"
        text = file.read_text()
        for number, machine in enumerate(self.machines, start=1):
            assert f"10.0.0.1{number}:8080" in text
            text = text.replace(f"10.0.0.1{number}:8080", f"127.0.0.1:{machine.node.port}")
        text = text.replace("bind :80\n", f"bind 127.0.0.1:{self._balancer}\n")
        text = re.sub(r"(?m)^ *(bind :443|http-request redirect|log /dev/log).*\n", "", text)
        file.write_text(text)
        apt.ensured("haproxy", haproxy.PROGRAM.exists)
        subprocess.run([haproxy.PROGRAM, "-c", "-f", file], check=True)

    def _start_balancer(self) -> None:
        file = self._folder / "haproxy" / "haproxy.cfg"
        self._haproxy = subprocess.Popen([haproxy.PROGRAM, "-db", "-f", file], stdout=subprocess.DEVNULL)

    def end(self) -> None:
        if self._haproxy:
            self._haproxy.terminate()
            self._haproxy.wait()
        for machine in self.machines:
            if machine.node.process and machine.node.process.poll() is None:
                machine.node.kill()


@pytest.fixture
def recipe(tmp_path: Path) -> Iterator[Recipe]:
    with running_postgres() as database:
        recipe = Recipe(tmp_path, database)
        try:
            yield recipe
        finally:
            recipe.end()


def test_from_nothing_to_two_nodes(recipe: Recipe) -> None:
    asyncio.run(make_buckets({"endpoint-url": moto_s3(), **KEYS}, [BUCKET]))
    for step in steps():
        recipe.run(*step)
    assert "node-1" in recipe.said.partition("nodes")[2]
    assert "node-2" in recipe.said.partition("nodes")[2]
    assert "report.pdf" in recipe.said.splitlines()[-1]
    assert all(machine.node.ready() for machine in recipe.machines)
