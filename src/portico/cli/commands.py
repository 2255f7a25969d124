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


def _of_server(module: str, summary: str) -> CommandEntry:
    return CommandEntry(summary, f"portico.cli.administration.{module}", needs_server=True)


def _of_client(summary: str) -> CommandEntry:
    return CommandEntry(summary, "portico.cli.remote.arguments")


COMMANDS: Mapping[str, CommandEntry] = {
    "serve": _of_server("serve", "Start the gateway."),
    "user": _of_server("users", "Manage Web Users: who can sign in, and what they see."),
    "group": _of_server("groups", "Manage groups: users who share mounts and limits."),
    "mount": _of_server("mounts", "Manage mounts: the folders that the trees of users and groups consist of."),
    "explain": _of_server("reach", "Explain what a Web User can do at a path, and why."),
    "who": _of_server("reach", "List the users, keys and links that reach a place in a storage."),
    "key": _of_server("keys", "Manage API keys, with which programs act for a Web User."),
    "connection": _of_server("connections", "Manage connections to the storage services that hold the files."),
    "apply": _of_server("apply", "Make connections, groups, users and mounts what a file says."),
    "export": _of_server("export", "Print connections, groups, users and mounts as a file for 'portico apply'."),
    "uploads": _of_server("uploads", "List and end unfinished uploads."),
    "digests": _of_server("digests", "Verify files that were copied back."),
    "audit": _of_server("audit", "Search the audit log."),
    "rewind": _of_server("rewind", "Undo what one user, key, link or session did."),
    "held": _of_server("held", "List or remove what users have removed for good."),
    "config": _of_server("config", "Check the settings in application.properties."),
    "migrate": _of_server("database", "Migrate the database to this version of Portico."),
    "backup": _of_server("backup", "Save users, connections and the audit log to a file."),
    "restore": _of_server("restore", "Restore a backup."),
    "migrate-database": _of_server(
        "database", "Copy everything to another database, such as from SQLite to PostgreSQL."
    ),
    "cluster": _of_server("cluster", "Show or forget the settings all nodes on a database share."),
    "login": _of_client("Sign in to a gateway and stay signed in."),
    "logout": _of_client("Sign out."),
    "whoami": _of_client("Show who is signed in and where."),
    "ls": _of_client("List folders."),
    "find": _of_client("Find files and folders."),
    "put": _of_client("Upload files and folders."),
    "get": _of_client("Download files and folders."),
    "sync": _of_client("Make one folder like another, uploading or downloading."),
    "cat": _of_client("Write files to standard output."),
    "mkdir": _of_client("Create folders."),
    "mv": _of_client("Move or rename files and folders."),
    "cp": _of_client("Copy files and folders."),
    "rm": _of_client("Remove files and folders."),
    "jobs": _of_client("List and cancel long changes on the gateway."),
    "trash": _of_client("Restore deleted or replaced files."),
    "share": _of_client("Share files and folders with people who have no account."),
    "receipt": _of_client("Verify a gateway's receipts for stored files."),
    "completion": CommandEntry("Print a completion script for your shell.", "portico.cli.completion"),
}


def load(name: str) -> "Command | Group":
    command: Command | Group = import_module(COMMANDS[name].module).COMMANDS[name]
    return command
