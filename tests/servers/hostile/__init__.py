"""A storage service that wishes us ill: it speaks like each of the four until it attacks."""

from .server import Ask, Attack, Hostile, Say, Trap, Voice
from .voices import VOICES, options

__all__ = ["VOICES", "Ask", "Attack", "Hostile", "Say", "Trap", "Voice", "options"]
