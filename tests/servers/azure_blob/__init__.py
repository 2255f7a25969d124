"""A small faithful Azure Blob Storage that keeps versions, which Azurite does not; nothing on disk."""

import atexit
from functools import cache

from .containers import Container
from .server import AzureBlobServer

__all__ = ["AzureBlobServer", "Container", "azure_blob_server"]


@cache
def azure_blob_server() -> AzureBlobServer:
    """One for the whole run; it is started when it is first asked for."""
    server = AzureBlobServer().start()
    atexit.register(server.stop)
    return server
