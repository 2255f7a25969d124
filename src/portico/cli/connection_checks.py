"""Where the files of a connection are, and what is wrong with a local folder."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from portico.cli.home import PASSWORD_FILE, SET_UP_MARK, command

if TYPE_CHECKING:
    from portico.accounts.connections import Connection

_FILES_OF_A_HOME = ("portico.db", "secret.key", SET_UP_MARK, PASSWORD_FILE)


def location(connection: "Connection") -> str:
    """Where the files are; for a link, also where it leads."""
    from portico.providers.registry import KINDS

    if connection.kind == "local":
        folder = connection.options["folder"]
        return f"{folder} -> {os.path.realpath(folder)}" if os.path.islink(folder) else folder
    names = sorted(KINDS[connection.kind].required) if connection.kind in KINDS else []
    return " ".join([connection.kind, *(connection.options.get(name, "") for name in names)])


def problem(connection: "Connection", home: Path, *, writable: bool) -> str | None:
    """What is wrong with the folder of a local connection; None for other kinds."""
    if connection.kind != "local":
        return None
    from portico.providers import volume_id
    from portico.providers.folder_access import access_problem

    folder = connection.options["folder"]
    if wrong := access_problem(folder, writable=writable):
        advice = _remedy(connection, home)
        if not os.path.lexists(folder):
            advice = f" Create it, or correct the path.{advice}"
        return f"The folder {folder} of the connection {connection.name} {wrong}.{advice}"
    words = command(home, "connection", "set", connection.name, "--option", f"folder={folder}")
    if wrong := volume_id.damage(folder):
        return (
            f"The folder {folder} of the connection {connection.name} {wrong}. Restore that file; "
            f"or remove it, and then: {words}"
        )
    if wrong := _volume_problem(connection):
        return (
            f"The folder {folder} of the connection {connection.name} {wrong}. Mount it; "
            f"or, if this is the right folder all the same: {words}"
        )
    if Path(home).resolve().is_relative_to(Path(folder).resolve()):
        return (
            f"The folder {folder} of the connection {connection.name} holds the gateway's own home, "
            "with its keys and passwords; do not give any user a root there."
        )
    if other := _other_home(folder, home):
        return (
            f"The folder {folder} of the connection {connection.name} belongs to another Portico home, {other}."
            f"{_remedy(connection, home)}"
        )
    return None


def _volume_problem(connection: "Connection") -> str | None:
    from portico.providers import volume_id

    if connection.volume_id is None:
        return None
    try:
        folder = os.open(connection.options["folder"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return volume_id.problem(folder, connection.volume_id)
        finally:
            os.close(folder)
    except OSError as error:
        return f"has a volume id that cannot be read ({error.strerror})"


def _remedy(connection: "Connection", home: Path) -> str:
    """How to use this home's own folder instead, which is usually wanted after a home was copied or moved."""
    own = home / "files"
    if connection.options["folder"] == str(own) or not own.is_dir():
        return ""
    words = command(home, "connection", "set", connection.name, "--option", f"folder={own}")
    return f" To use the folder of this home instead: {words}"


def _other_home(folder: str, home: Path) -> Path | None:
    """The home of another gateway that contains the folder."""
    from portico.settings import PROPERTIES_FILE

    own, real = os.path.realpath(home), Path(os.path.realpath(folder))
    for parent in (real, *real.parents):
        if str(parent) == own:
            return None
        is_home = any(os.path.exists(parent / name) for name in _FILES_OF_A_HOME)
        if is_home and os.path.isfile(parent / PROPERTIES_FILE):
            return parent
    return None
