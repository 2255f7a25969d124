"""Google Cloud Storage's JSON interface, as small as our tests allow and as strict as the service."""

from .faults import Answer, CutBody, DropAnswer, Fault, Silence, Status
from .server import GcsServer, shared_server

__all__ = ["Answer", "CutBody", "DropAnswer", "Fault", "GcsServer", "Silence", "Status", "shared_server"]
