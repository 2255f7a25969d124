"""Names that a library keeps private and Portico uses all the same.

They may go with any release, so `pyproject.toml` bounds the version of each library from above. When a bound is
raised, these tests say what has gone, and which file uses it.
"""

import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import multipart
import pytest
from aiobotocore import utils
from aiobotocore.httpsession import AIOHTTPSession
from aiobotocore.session import AioSession
from azure.core.credentials import AzureNamedKeyCredential
from azure.storage.blob.aio import BlobServiceClient, ExponentialRetry
from azure.storage.fileshare.aio import ShareServiceClient
from botocore import handlers
from granian import _signals
from granian.server.mp import MPServer

from portico.server.certificates import self_signed

PROJECT = Path(__file__).parents[2]
BOUNDED = {
    "aiobotocore": "s3",  # which pins botocore itself
    "azure-core": "azure",
    "azure-storage-blob": "azure",
    "azure-storage-file-share": "azure",
    "aiohttp": "azure",
    "granian": "server",
    "multipart": "server",
}
"""Libraries whose private names are used, and the extra that installs each."""

KEY = AzureNamedKeyCredential("account", "a2V5")
SOURCES = "src/portico/providers/s3/service.py"


def requirements(extra: str) -> dict[str, str]:
    project: dict[str, Any] = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    names = project["optional-dependencies"][extra]
    return {name.partition(">")[0].partition("[")[0]: name for name in names}


@pytest.mark.parametrize("library", BOUNDED)
def test_a_library_with_private_names_has_an_upper_bound(library: str) -> None:
    assert ",<" in requirements(BOUNDED[library])[library]


def private_names() -> Iterator[tuple[str, object, str]]:
    service = "src/portico/providers/s3/service.py"
    azure = "src/portico/providers/azure_common/service.py"
    yield service, handlers, "_handle_200_error"
    yield service, handlers, "add_expect_header"
    yield service, AioSession(), "_credentials"
    yield SOURCES, utils, "_RefCountedSessionMixin"
    for name in ("_get_session", "_create_connector", "_sessions", "_sessions_lock", "_timeout", "_exit_stack"):
        yield SOURCES, AIOHTTPSession(), name
    for client in (BlobServiceClient, ShareServiceClient):
        yield azure, client("https://account.invalid", credential=KEY), "_pipeline"
    yield azure, ExponentialRetry(), "increment"
    yield azure, ExponentialRetry(), "get_backoff_time"
    yield "src/portico/providers/wire/transport.py", aiohttp.ClientResponse, "_body"
    yield "src/portico/api/multipart.py", multipart.PushMultipartParser, "_on_segment_headerline"
    yield "src/portico/server/worker.py", _signals, "set_loop_signals"


async def test_private_names_still_exist() -> None:
    missing = [f"{file}: {name}" for file, owner, name in private_names() if not hasattr(owner, name)]
    assert not missing, missing


async def test_the_files_still_use_them() -> None:
    """What is no longer used need not be bounded."""
    unused = [f"{file}: {name}" for file, _, name in private_names() if name not in (PROJECT / file).read_text()]
    assert not unused, unused


async def test_the_sources_of_s3_credentials_still_have_their_sessions() -> None:
    """`http_sessions.bound_sources` replaces them."""
    sources = AioSession().get_component("credential_provider")
    machine = sources.get_provider("iam-role")._role_fetcher
    container = sources.get_provider("container-role")._fetcher
    for owner, names in (
        (machine, ("_session", "_timeout", "_base_url")),
        (container, ("_session", "TIMEOUT_SECONDS")),
    ):
        for name in names:
            assert hasattr(owner, name), f"{SOURCES}: {name}"


def test_granian_still_calls_its_signals_by_the_module() -> None:
    """`cli.worker` replaces `set_loop_signals` there."""
    assert "loop" in inspect.signature(_signals.set_loop_signals).parameters


def test_granian_still_keeps_the_files_of_the_certificate(tmp_path: Path) -> None:
    """`cli.server` replaces them, and what replaces workers."""
    pair = self_signed(tmp_path, "127.0.0.1")
    server = MPServer("portico.server.application", ssl_cert=pair.file, ssl_key=pair.key)
    files: tuple[object, ...] = server.ssl_ctx[:3]
    assert files == (True, str(pair.file), str(pair.key))
    for name in ("_reload", "_stop_workers", "_spawn_worker", "wrks", "interrupt_children", "reload_signal"):
        assert hasattr(server, name), f"src/portico/server/processes.py: {name}"
