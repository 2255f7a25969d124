"""One Azurite for all tests of a run: started on first use, ended with the process."""

import atexit
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from itertools import count

from azure.storage.blob.aio import BlobServiceClient

from portico.providers.azure_common.credentials import credential_and_url
from portico.providers.azure_common.service import Service

from .installation import installed

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Published with Azurite; the same everywhere."""
_START_SECONDS = 180
_ENDING_WITH_ITS_STARTER = ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()
"""A run that is killed leaves no server behind."""
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Azurite:
    port: int

    @classmethod
    def running(cls) -> "Azurite":
        return _running()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    async def new_container(self) -> str:
        """A fresh, empty container."""
        name = f"test-{next(_numbers)}"
        await self._send("PUT", name)
        return name

    async def remove_container(self, name: str) -> None:
        await self._send("DELETE", name)

    async def _send(self, method: str, container: str) -> None:
        access = credential_and_url("blob", account_url=self.url, account_key=KEY)
        service = Service(access, BlobServiceClient, "2021-12-02")
        try:
            await service.send(method, service.url(container), {"restype": "container"})
        finally:
            await service.close()


@cache
def _running() -> Azurite:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    process = subprocess.Popen(
        [*_ENDING_WITH_ITS_STARTER, *installed(), *options, "--blobHost", "127.0.0.1", "--blobPort", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    atexit.register(_end, process)
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return Azurite(port)
    raise RuntimeError("Azurite did not start")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
