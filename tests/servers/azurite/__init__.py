"""Azurite, Microsoft's emulator of Azure Blob Storage: installed once into `.cache`, started on demand."""

from .installation import installed
from .server import ACCOUNT, KEY, Azurite

__all__ = ["ACCOUNT", "KEY", "Azurite", "installed"]
