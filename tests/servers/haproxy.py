"""A haproxy before several nodes, as deploy/ shows it: it asks /readyz and takes what is not ready out."""

import subprocess
from pathlib import Path

from ..gateways import free_port
from . import apt

PROGRAM = Path("/usr/sbin/haproxy")

_CONFIGURATION = """\
global
    maxconn 4000
defaults
    mode http
    timeout connect 5s
    timeout client 1m
    timeout server 1m
    retries 2
    option redispatch
    retry-on conn-failure empty-response
frontend gateway
    bind 127.0.0.1:{port}
    default_backend nodes
backend nodes
    balance leastconn
    option httpchk GET /readyz
    default-server check inter 500ms fall 2 rise 1
{servers}
"""


class Haproxy:
    def __init__(self, folder: Path, ports: list[int]) -> None:
        apt.ensured("haproxy", PROGRAM.exists)
        self.port = free_port()
        servers = "\n".join(f"    server node{port} 127.0.0.1:{port}" for port in ports)
        self._file = folder / "haproxy.cfg"
        self._file.write_text(_CONFIGURATION.format(port=self.port, servers=servers))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [PROGRAM, "-db", "-f", self._file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def stop(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait()
