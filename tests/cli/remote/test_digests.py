"""`portico digests adopt`, after files were copied back from a backup."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ...gateways import Gateway
from ..conftest import Portico
from .test_sync import stored


def adopt(gateway: Gateway, connection: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-m", "portico", "--home", str(gateway.home), "digests", "adopt", connection]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def verified(remote: Portico, here: Path) -> dict[str, bool]:
    shutil.rmtree(here / "down", ignore_errors=True)
    outcome = remote("sync", "down", "/in", "down", "--verify", "--json")
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    return {line["path"]: line["verified"] for line in lines}


def test_copied_back_files_have_their_digests_again(remote: Portico, gateway: Gateway, here: Path, there: Path) -> None:
    for name in ("same", "other", "untouched"):
        stored(gateway, f"/in/{name}", f"content of {name}".encode(), Want_Repr_Digest="sha-256=1")
    assert verified(remote, here) == {"/in/other": True, "/in/same": True, "/in/untouched": True}
    for name in ("same", "other"):  # as a backup does: with its time, as another file
        shutil.copy2(there / "in" / name, here / "kept")
        os.replace(here / "kept", there / "in" / name)
    (there / "in" / "other").write_text("CONTENT OF OTHER")
    assert verified(remote, here) == {"/in/other": False, "/in/same": False, "/in/untouched": True}
    outcome = adopt(gateway, "local")
    assert outcome.stdout.splitlines() == [
        "/web/in/other: not the content that was recorded",
        "1 digests adopted, 1 files differ.",
    ]
    assert outcome.returncode == 1
    assert verified(remote, here) == {"/in/other": False, "/in/same": True, "/in/untouched": True}
    assert adopt(gateway, "nothing").returncode == 1
