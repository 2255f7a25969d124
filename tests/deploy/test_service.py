"""The systemd unit and the examples for proxies."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .files import DEPLOY, HOME, PORT, seconds, text

OPTIONS = re.findall(r"^(\w+)=(.*)$", text("systemd/portico.service"), re.MULTILINE)
UNIT = dict(OPTIONS)


def test_the_unit_starts_and_stops_the_gateway() -> None:
    assert UNIT["Type"] == "notify"
    assert UNIT["ExecStart"] == "/opt/portico/bin/portico serve"
    assert UNIT["ExecReload"] == "/bin/sh -c 'kill -HUP $MAINPID'"
    assert UNIT["KillMode"] == "mixed"
    assert seconds(UNIT["TimeoutStopSec"]) > 25
    assert ("Environment", f"PORTICO_HOME={HOME}") in OPTIONS
    assert UNIT["StateDirectory"] == "portico"


def test_the_key_is_a_credential() -> None:
    name, _, file = UNIT["LoadCredential"].partition(":")
    assert ("Environment", f"PORTICO_SECRET_KEY_FILE=%d/{name}") in OPTIONS
    assert f'"{Path(file).name}"' in text("systemd/portico-admin")
    assert f'Path("{Path(file).parent}")' in text("systemd/portico-admin")


def test_a_reload_reads_the_environment_again() -> None:
    assert UNIT["EnvironmentFile"] == "-/etc/portico/environment"
    assert ("Environment", "PORTICO_ENVIRONMENT_FILE=/etc/portico/environment") in OPTIONS


def test_the_unit_is_confined() -> None:
    assert UNIT["ProtectSystem"] == "strict"
    assert UNIT["User"] == "portico"
    assert re.search(r"^u portico ", text("systemd/portico.sysusers.conf"), re.MULTILINE)
    enabled = {name for name, value in OPTIONS if value == "yes"}
    assert enabled >= {
        "NoNewPrivileges",
        "PrivateTmp",
        "PrivateDevices",
        "ProtectHome",
        "ProtectKernelTunables",
        "RestrictNamespaces",
        "RestrictSUIDSGID",
        "MemoryDenyWriteExecute",
        "LockPersonality",
    }
    assert {"SystemCallFilter", "RestrictAddressFamilies", "CapabilityBoundingSet"} <= set(UNIT)


def test_the_admin_command_can_be_run() -> None:
    assert (DEPLOY / "systemd" / "portico-admin").stat().st_mode & 0o111
    assert text("systemd/portico-admin").startswith(f"#!{Path(UNIT['ExecStart'].split()[0]).parent}/python -I\n")


def ran_admin(etc: Path, home: Path, program: str, *words: str) -> str:
    """What a program prints that the script runs as the command."""
    script = text("systemd/portico-admin")
    replaced = {
        '"/etc/portico"': repr(str(etc)),
        '"/var/lib/portico"': repr(str(home)),
        '["runuser", "-u", "portico", "--", "/opt/portico/bin/portico"]': repr([sys.executable, "-c", program]),
    }
    for there, here in replaced.items():
        assert there in script
        script = script.replace(there, here)
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_admin_command_works_before_the_first_start(tmp_path: Path) -> None:
    """When systemd has not made the home yet."""
    (tmp_path / "secret.key").write_text("the key\n")
    home = tmp_path / "home"
    shown = ran_admin(tmp_path, home, "import os; print(os.getcwd(), os.environ['PORTICO_HOME'])")
    assert shown == f"/ {home}\n"
    assert not home.exists()


def test_the_admin_command_has_the_settings_and_the_key(tmp_path: Path) -> None:
    """Whatever the password looks like: no shell reads the file."""
    (tmp_path / "environment").write_text('PORTICO_DATABASE_URL="postgresql://p:a$b`c d@h/n"\nAWS_PROFILE=x $y\n')
    (tmp_path / "secret.key").write_text("the key\n")
    shown = ["PORTICO_DATABASE_URL", "AWS_PROFILE", "PORTICO_HOME", "PORTICO_SECRET_KEY"]
    show = f"import os, sys; print([os.environ[name] for name in {shown}], os.getcwd(), sys.argv[1:])"
    shown_by_it = ran_admin(tmp_path, tmp_path, show, "user", "list")
    values = ["postgresql://p:a$b`c d@h/n", "x $y", str(tmp_path), "the key"]
    assert shown_by_it == f"{values} {tmp_path} {['user', 'list']}\n"


@pytest.mark.parametrize("file", ["proxies/haproxy.cfg", "cluster/haproxy.cfg"])
def test_haproxy_asks_nodes_whether_they_are_ready(file: str) -> None:
    assert "http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host portico" in text(file)
    assert "http-request set-header X-Forwarded-For %[src]" in text(file)
    assert "option http-buffer-request" not in text(file)


def test_nginx_passes_uploads_on_as_they_arrive() -> None:
    for line in (
        "client_max_body_size 0;",
        "proxy_request_buffering off;",
        "proxy_buffering off;",
        "proxy_pass http://portico;",
        "proxy_set_header X-Forwarded-For $remote_addr;",
        f"server 127.0.0.1:{PORT} ",
    ):
        assert line in text("proxies/nginx.conf"), line


def test_caddy_asks_nodes_whether_they_are_ready() -> None:
    assert f"reverse_proxy 127.0.0.1:{PORT} {{" in text("proxies/Caddyfile")
    assert "health_uri /readyz" in text("proxies/Caddyfile")


@pytest.mark.parametrize("file", ["proxies/nginx.conf", "proxies/haproxy.cfg", "proxies/Caddyfile"])
def test_proxies_send_strict_transport_security_and_log_no_queries(file: str) -> None:
    assert "Strict-Transport-Security" in text(file)
    assert "The query may" in text(file) or "Without the query" in text(file)
