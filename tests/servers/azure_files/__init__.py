"""A small faithful Azure File Share: real signatures, real refusals, nothing on disk."""

import atexit
from functools import cache

from .server import Answer, AzureFilesServer, Call, Fault, Lost, refused
from .shares import Refusal, Share

__all__ = ["Answer", "AzureFilesServer", "Call", "Fault", "Lost", "Refusal", "Share", "azure_files_server", "refused"]


@cache
def azure_files_server() -> AzureFilesServer:
    """One for the whole run; it is started when it is first asked for."""
    server = AzureFilesServer().start()
    atexit.register(server.stop)
    return server
