"""tus-js-client and tuspy, unchanged, as their documentation shows them."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tusclient import client as tuspy

from portico.api.tus import UPLOADS

from ..faults.processes import TunedGateway
from ..servers.npm import installed, node

_HERE = Path(__file__).parent


async def send_by_tus_js(port: int, gateway: TunedGateway, file: Path, **options: Any) -> None:
    packages = await asyncio.to_thread(installed, "tus", _HERE)
    given = {
        "packages": str(packages),
        "endpoint": f"http://127.0.0.1:{port}{UPLOADS}",
        "token": gateway.token,
        "file": str(file),
        **options,
    }
    script = _HERE / "upload.mjs"
    process = await asyncio.create_subprocess_exec(
        node(), str(script), json.dumps(given), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-2000:]


def send_by_tuspy(
    port: int, gateway: TunedGateway, file: Path, chunk: int, metadata: Mapping[str, str], checksum: bool = False
) -> None:
    client = tuspy.TusClient(f"http://127.0.0.1:{port}{UPLOADS}", headers={"Authorization": f"Bearer {gateway.token}"})
    with file.open("rb") as stream:
        uploader = client.uploader(
            file_stream=stream,
            chunk_size=chunk,
            metadata={"filename": file.name, **metadata},
            retries=200,
            retry_delay=0,
            upload_checksum=checksum,
        )
        uploader.upload()
