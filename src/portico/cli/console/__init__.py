"""Terminals, arguments, help, output and exit codes."""
