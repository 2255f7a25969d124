"""The table of commands. A command's module is imported when the command is used."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from portico.cli.console.parser import Command, Group


class CommandEntry(NamedTuple):
    summary: str
    module: str
    """Where the command is defined, in a dictionary `COMMANDS`."""
    needs_server: bool = False


_REMOTE = "portico.cli.remote.arguments"

COMMANDS: Mapping[str, CommandEntry] = {
    "serve": CommandEntry("Start the gateway.", "portico.cli.administration.serve", needs_server=True),
    "user": CommandEntry(
        "Manage Web Users: who can sign in, and what they see.", "portico.cli.administration.users", True
    ),
    "key": CommandEntry(
        "Manage API keys, with which programs act for a Web User.", "portico.cli.administration.keys", True
    ),
    "connection": CommandEntry(
        "Manage connections to the storage services that hold the files.",
        "portico.cli.administration.connections",
        True,
    ),
    "uploads": CommandEntry("List and end unfinished uploads.", "portico.cli.administration.uploads", True),
    "digests": CommandEntry("Verify files that were copied back.", "portico.cli.administration.digests", True),
    "audit": CommandEntry("Search the audit log.", "portico.cli.administration.audit", True),
    "config": CommandEntry("Check the settings in application.properties.", "portico.cli.administration.config", True),
    "migrate": CommandEntry(
        "Migrate the database to this version of Portico.", "portico.cli.administration.database", True
    ),
    "backup": CommandEntry(
        "Save users, connections and the audit log to a file.", "portico.cli.administration.backup", True
    ),
    "restore": CommandEntry("Restore a backup.", "portico.cli.administration.restore", True),
    "migrate-database": CommandEntry(
        "Copy everything to another database, such as from SQLite to PostgreSQL.",
        "portico.cli.administration.database",
        True,
    ),
    "cluster": CommandEntry(
        "Show or forget the settings all nodes on a database share.", "portico.cli.administration.cluster", True
    ),
    "login": CommandEntry("Sign in to a gateway and stay signed in.", _REMOTE),
    "logout": CommandEntry("Sign out.", _REMOTE),
    "whoami": CommandEntry("Show who is signed in and where.", _REMOTE),
    "ls": CommandEntry("List folders.", _REMOTE),
    "find": CommandEntry("Find files and folders.", _REMOTE),
    "put": CommandEntry("Upload files and folders.", _REMOTE),
    "get": CommandEntry("Download files and folders.", _REMOTE),
    "sync": CommandEntry("Make one folder like another, uploading or downloading.", _REMOTE),
    "cat": CommandEntry("Write files to standard output.", _REMOTE),
    "mkdir": CommandEntry("Create folders.", _REMOTE),
    "mv": CommandEntry("Move or rename files and folders.", _REMOTE),
    "cp": CommandEntry("Copy files and folders.", _REMOTE),
    "rm": CommandEntry("Remove files and folders.", _REMOTE),
    "jobs": CommandEntry("List and cancel long changes on the gateway.", "portico.cli.remote.arguments"),
    "trash": CommandEntry("Restore deleted or replaced files.", "portico.cli.remote.arguments"),
    "share": CommandEntry("Share files and folders with people who have no account.", "portico.cli.remote.arguments"),
    "receipt": CommandEntry("Verify a gateway's receipts for stored files.", "portico.cli.remote.arguments"),
    "completion": CommandEntry("Print a completion script for your shell.", "portico.cli.completion"),
}


def load(name: str) -> "Command | Group":
    command: Command | Group = import_module(COMMANDS[name].module).COMMANDS[name]
    return command
