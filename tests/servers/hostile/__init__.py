"""A hostile storage service: it behaves like one of the four until it attacks."""

from .behaviours import BEHAVIOURS, options
from .server import Attack, Behaviour, Hostile, Request, Response, Trap

__all__ = ["BEHAVIOURS", "Attack", "Behaviour", "Hostile", "Request", "Response", "Trap", "options"]
