"""A second S3, which checks signatures and tokens: OpenStack Swift, one for the whole run."""

import atexit
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from ..memory import data_folder

KEYS = {"access-key-id": "test:tester", "secret-access-key": "swift-test-secret"}

_NODE = Path(__file__).with_name("node.py")


@cache
def swift_s3() -> str:
    """The server's address; it is started when it is first asked for."""
    folder = tempfile.mkdtemp(prefix="portico-swift-", dir=data_folder())
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(_NODE), folder, KEYS["secret-access-key"]],
        stdout=subprocess.PIPE,
        text=True,
    )

    def stop() -> None:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    assert process.stdout
    return f"http://127.0.0.1:{int(process.stdout.readline())}"
