"""A hostile storage service: it behaves like one of the four until it attacks."""

from .behaviours import BEHAVIOURS, options
from .server import LISTENER, Attack, Behaviour, Hostile, Request, Response, Trap

__all__ = ["BEHAVIOURS", "LISTENER", "Attack", "Behaviour", "Hostile", "Request", "Response", "Trap", "options"]
