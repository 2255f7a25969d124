"""Portico: a safe, fast front on cloud storage."""

__version__ = "0.1.0"
