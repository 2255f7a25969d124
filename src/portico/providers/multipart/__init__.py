"""Uploads in parts, within one memory budget."""
