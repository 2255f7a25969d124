"""What a worker imports before it serves: what the settings and the connections name, and nothing else."""

import json
import subprocess
import sys
from pathlib import Path

from .conftest import Portico

NOT_IN_A_WORKER = {
    "aiosqlite",
    "alembic",  # nothing is to be migrated
    "aiobotocore",
    "aiohttp",
    "azure",
    "botocore",
    "cryptography",  # nothing is encrypted: a local folder has no secret, and there is no resumable upload
    "google",
    "keyring",
    "opentelemetry",
    "portico.client",
    "portico.providers.azure_blob",
    "portico.providers.azure_files",
    "portico.providers.gcs",
    "portico.providers.s3",
    "portico.web.bundle",  # no browser has asked for the page
    "psycopg",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.orm",
}

WORKER = """
import asyncio, json, sys
from pathlib import Path
import portico.server.application, portico.server.processes, portico.server.worker
from portico.server.composition import FIRST_RUN_DELAY_SECONDS, open_gateway
from portico.observability.metrics import Metrics
from portico.operations.actors.cancellation import CancellableWork
from portico.settings.settings import load

async def main():
    async with open_gateway(load(Path(sys.argv[1])), Metrics(), CancellableWork()) as gateway:
        await gateway.readiness.check()
        await asyncio.sleep(2 * FIRST_RUN_DELAY_SECONDS)  # the first sweeps have begun
        print(json.dumps(sorted(sys.modules)))

asyncio.run(main())
"""


SERVE = """
import json, sys
from portico.cli.main import run
assert run(["serve", "--help"]) == 0
import granian, structlog
print(json.dumps(sorted(name for name, module in sys.modules.items() if module)))
"""


HELP = """
import sys
from portico.cli.main import run
assert run(["ls", "--help"]) == 0
print(sorted(name for name in sys.modules if name.startswith("portico.client")), file=sys.stderr)
"""


def test_help_does_not_import_the_client() -> None:
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_serve_imports_no_optional_libraries_that_it_does_not_use() -> None:
    done = subprocess.run([sys.executable, "-c", SERVE], capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout.splitlines()[-1]))
    assert modules >= {"granian", "structlog"}
    assert modules & {"rich", "pygments", "attr", "dotenv"} == set()


def test_a_worker_imports_what_it_uses(anna: Portico, home: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WORKER, str(home)], capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout))
    assert modules >= {"portico.providers.local", "sqlalchemy"}
    assert modules & NOT_IN_A_WORKER == set()
