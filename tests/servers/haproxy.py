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
    retry-on conn-failure
frontend gateway
    bind 127.0.0.1:{port}
    default_backend nodes
backend nodes
    balance leastconn
    option allbackups
    option httpchk GET /readyz
    default-server inter 500ms fall 2 rise 1
{servers}
"""


class Haproxy:
    def __init__(self, folder: Path, ports: list[int]) -> None:
        apt.ensured("haproxy", PROGRAM.exists)
        self.port = free_port()
        lines = [f"    server node{port} 127.0.0.1:{port} check" for port in ports]
        # While no node is ready, they say so themselves: a clean 503 with Retry-After.
        lines += [f"    server spare{port} 127.0.0.1:{port} backup" for port in ports]
        servers = "\n".join(lines)
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
