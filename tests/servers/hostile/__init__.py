"""A storage service that wishes us ill: it speaks like each of the four until it attacks."""

from .server import Attack, Hostile, Trap
from .voices import VOICES, options

__all__ = ["VOICES", "Attack", "Hostile", "Trap", "options"]
