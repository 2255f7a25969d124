"""How many files of Portico a warm request runs through: a reader has to know them to follow it."""

import json
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "request_files.py"
MOST = {"listing": 28, "upload": 33, "download": 24, "sign-in": 27}


def test_a_request_takes_a_short_way() -> None:
    run = subprocess.run([sys.executable, TOOL, "--json"], capture_output=True, text=True, check=True)
    found = json.loads(run.stdout)
    assert {name: len(files) for name, files in found.items() if len(files) > MOST[name]} == {}
    assert all("api/routes.py" in files for files in found.values())
