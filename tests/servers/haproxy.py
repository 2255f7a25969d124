"""A haproxy before several nodes, with the configuration in deploy/: it asks /readyz and takes what is not ready out."""

import re
import subprocess
from pathlib import Path

from ..gateways import free_port
from . import apt

PROGRAM = Path("/usr/sbin/haproxy")

_EXAMPLE = Path(__file__).parents[2] / "deploy" / "cluster" / "haproxy.cfg"


class Haproxy:
    def __init__(self, folder: Path, ports: list[int]) -> None:
        apt.ensured("haproxy", PROGRAM.exists)
        self.port = free_port()
        text = _EXAMPLE.read_text().replace("bind :8080", f"bind 127.0.0.1:{self.port}")
        text = text.replace("log stdout format raw local0", "log stdout format raw local0 err")
        text = re.sub(r"(?m)^resolvers .*(\n    .*)*", "", text).replace(" resolvers containers", "")
        for number, port in enumerate(ports, start=1):
            text = text.replace(f"node{number}:8080", f"127.0.0.1:{port}")
        self._file = folder / "haproxy.cfg"
        self._file.write_text(text)
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
