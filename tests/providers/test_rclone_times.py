"""Modification times as rclone, an independent client, reads and writes them."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path as Folder
from secrets import token_hex
from typing import Any

import pytest

from portico.providers.azure_blob.provider import AzureBlobProvider
from portico.providers.azure_files.provider import AzureFilesProvider
from portico.providers.contract.provider import Provider
from portico.providers.contract.uploads import WriteOptions
from portico.providers.gcs.provider import GcsProvider

from ..conformance.actions import at, pieces
from ..servers.azure_files import Share, azure_files_server
from ..servers.azurite import ACCOUNT, KEY, Azurite
from ..servers.gcs import shared_server

MOMENT = datetime(2019, 5, 4, 3, 2, 1, 123_456, tzinfo=UTC)
RCLONE = Folder(sys.executable).parent / "rclone"

Opened = tuple[Provider, dict[str, str]]
"""A provider, and the options by which rclone opens the same storage."""


@asynccontextmanager
async def azure_blob(_: Folder) -> AsyncIterator[Opened]:
    server = Azurite.running()
    container = await server.new_container()
    options = {"TYPE": "azureblob", "ACCOUNT": ACCOUNT, "KEY": KEY, "ENDPOINT": server.url}
    provider = AzureBlobProvider(container, account_url=server.url, account_key=KEY)
    yield provider, options | {"PLACE": f"{container}/"}
    await provider.close()
    await server.remove_container(container)


@asynccontextmanager
async def azure_files(_: Folder) -> AsyncIterator[Opened]:
    server, name = azure_files_server(), f"share-{token_hex(8)}"
    server.shares[name] = Share()
    provider = AzureFilesProvider(name, connection_string=server.connection_string)
    options = {
        "TYPE": "azurefiles",
        "ACCOUNT": server.account,
        "KEY": server.key,
        "ENDPOINT": server.url.replace("127.0.0.1", "localhost"),
        "SHARE_NAME": name,
    }
    yield provider, options | {"PLACE": ""}
    await provider.close()
    del server.shares[name]


@asynccontextmanager
async def gcs(folder: Folder) -> AsyncIterator[Opened]:
    server = shared_server()
    bucket = server.make_bucket(f"bucket-{token_hex(8)}", public=True).name
    provider = GcsProvider(
        bucket, service_account_file=server.write_key_file(folder / "key.json"), endpoint_url=server.address
    )
    options = {
        "TYPE": "google cloud storage",
        "ANONYMOUS": "true",
        "ENDPOINT": f"{server.address}/storage/v1/",
        "BUCKET_POLICY_ONLY": "true",
        "NO_CHECK_BUCKET": "true",
    }
    yield provider, options | {"PLACE": f"{bucket}/"}
    await provider.close()
    del server.buckets[bucket]


def run(options: dict[str, str], *arguments: str) -> str:
    environment = {f"RCLONE_CONFIG_T_{name}": value for name, value in options.items()}
    environment |= {"RCLONE_CONFIG": os.devnull, "HOME": os.devnull, "NO_PROXY": "*"}
    command = [str(RCLONE), "--retries", "1", "--low-level-retries", "1", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("storage", [azure_blob, azure_files, gcs])
async def test_modification_times_are_shared_with_rclone(storage: Callable[..., Any], tmp_path: Folder) -> None:
    async with storage(tmp_path) as (provider, options):
        place = f"T:{options.pop('PLACE')}"
        await provider.write(at("ours"), pieces(b"1"), "text/plain", WriteOptions(modified=MOMENT))
        (found,) = json.loads(run(options, "lsjson", "--files-only", place))
        assert datetime.fromisoformat(found["ModTime"]) == MOMENT

        theirs = tmp_path / "theirs"
        theirs.write_bytes(b"2")
        os.utime(theirs, (MOMENT.timestamp(), MOMENT.timestamp()))
        run(options, "copy", str(theirs), place)
        assert (await provider.stat(at("theirs"))).last_modified == "2019-05-04T03:02:01.123Z"
