"""The image and the Compose files agree with each other and with the gateway."""

import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from portico.accounts.vault import SecretKey
from portico.settings.settings import load

from .files import CHECKOUT, DEPLOY, HOME, PORT, USER, parsed, seconds, text

PORTICO = {"compose.yaml": ["portico"], "compose.cluster.yaml": ["secrets", "setup", "node1", "node2"]}


def test_the_image_runs_as_a_numbered_user_with_one_volume() -> None:
    lines = text("Containerfile").splitlines()
    assert f"USER {USER}:{USER}" in lines
    assert f"VOLUME {HOME}" in lines
    assert f"EXPOSE {PORT}" in lines
    assert 'ENTRYPOINT ["portico"]' in lines
    assert lines.index(f"USER {USER}:{USER}") > max(n for n, line in enumerate(lines) if "RUN" in line)
    assert f"PORTICO_HOME={HOME}" in text("Containerfile")
    assert f"PORTICO_SERVER_PORT={PORT}" in text("Containerfile")


def test_what_the_image_copies_is_in_its_context() -> None:
    allowed = set(re.findall(r"^!(.*)$", (CHECKOUT / ".containerignore").read_text(), re.MULTILINE))
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", text("Containerfile"), re.MULTILINE)
    assert {name for names in copied for name in names.split()} == allowed
    assert all((CHECKOUT / name).exists() for name in allowed)


@pytest.mark.parametrize("file", PORTICO)
def test_what_a_compose_file_refers_to_exists(file: str) -> None:
    compose = parsed(file)
    services = compose["services"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            assert source in compose["volumes"] or (DEPLOY / source).is_file()
            assert target.startswith("/")
    for name in PORTICO[file]:
        service = services[name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["image"] == "portico"


@pytest.mark.parametrize("file", PORTICO)
def test_an_image_is_told_its_commit(file: str) -> None:
    builds = [service["build"] for service in parsed(file)["services"].values() if "build" in service]
    assert [build["args"] for build in builds] == [{"COMMIT": "${COMMIT:-}"}]
    assert "ARG COMMIT=" in text("Containerfile")


def test_a_stop_is_longer_than_draining() -> None:
    for name in ("node1", "node2"):
        node = parsed("compose.cluster.yaml")["services"][name]
        waits = [node["environment"][f"PORTICO_SERVER_{word}"] for word in ("DRAIN_DELAY", "STOP_TIMEOUT")]
        assert seconds(node["stop_grace_period"]) > sum(map(seconds, waits))


def test_only_haproxy_may_connect_and_it_knows_the_nodes() -> None:
    services = parsed("compose.cluster.yaml")["services"]
    address = services["haproxy"]["networks"]["default"]["ipv4_address"]
    for name in ("node1", "node2"):
        environment = services[name]["environment"]
        assert environment["PORTICO_SERVER_BEHIND_PROXY"] == address
        assert address in environment["PORTICO_HEALTH_ALLOWED_ADDRESSES"]
        assert f"server {name} {name}:{PORT}" in text("cluster/haproxy.cfg")
        assert "ports" not in services[name]
    assert services["haproxy"]["ports"][0].endswith(":8080")
    assert "bind :8080" in text("cluster/haproxy.cfg")


@pytest.mark.skipif(os.geteuid() != 0, reason="files are given to another user, as in the container")
def test_secrets_are_made_once(tmp_path: Path) -> None:
    for name in ("portico", "postgres", "s3"):
        (tmp_path / name).mkdir()
    script = [sys.executable, str(DEPLOY / "cluster" / "make_secrets.py"), str(tmp_path)]
    subprocess.run(script, check=True)
    before = {file: file.read_text() for file in tmp_path.rglob("*") if file.is_file()}
    subprocess.run(script, check=True)
    assert before == {file: file.read_text() for file in tmp_path.rglob("*") if file.is_file()}

    portico = tmp_path / "portico"
    SecretKey.load(tmp_path / "none", {"PORTICO_SECRET_KEY_FILE": str(portico / "secret-key")})
    password = (tmp_path / "postgres" / "password").read_text()
    database = load(tmp_path, {"PORTICO_DATABASE_URL_FILE": str(portico / "database-url")}).database
    assert database == f"postgresql://portico:{password}@postgres/portico"
    [identity] = json.loads((tmp_path / "s3" / "s3.json").read_text())["identities"]
    assert identity["credentials"][0]["secretKey"] in (portico / "s3-credentials").read_text()
    assert {file.stat().st_mode & 0o777 for file in portico.iterdir()} == {0o400}
    assert {file.stat().st_uid for file in portico.iterdir()} == {int(USER)}


@contextmanager
def responding(status: int) -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (403, True), (404, False), (500, False)])
def test_the_health_check(status: int, healthy: bool) -> None:
    with responding(status) as port:
        assert (check(port) == 0) is healthy


def test_the_health_check_without_a_gateway() -> None:
    with responding(200) as port:
        pass
    assert check(port) != 0


def check(port: int) -> int:
    environment = {**os.environ, "PORTICO_SERVER_PORT": str(port)}
    command = [sys.executable, "-I", str(DEPLOY / "healthcheck.py")]
    return subprocess.run(command, env=environment, stderr=subprocess.DEVNULL, check=False).returncode
