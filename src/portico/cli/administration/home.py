"""The home folder: where it is, whether it can be used, and its settings file."""

import errno
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from portico.model.errors import PorticoError

if TYPE_CHECKING:
    from portico.settings.settings import Settings

PASSWORD_FILE = "web-password.txt"  # noqa: S105
SET_UP_MARK = ".set-up"
"""Marks a home whose first user was added, so that a deleted `web` does not come back."""
LOCK_FILE = ".serving"
_ADDRESS_FILE = ".address"


class HomeUnusable(PorticoError, code="home-unusable"): ...


def find_home(option: str | None, environment: Mapping[str, str] = os.environ) -> Path:
    chosen = option if option is not None else environment.get("PORTICO_HOME") or None
    if chosen == "":
        raise HomeUnusable("The home folder's name is empty; give it as --home DIR.")
    return Path(chosen).expanduser().absolute() if chosen else default_home(environment)


def default_home(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    if platform == "win32" and (local := environment.get("LOCALAPPDATA")):
        return Path(local, "portico")
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "portico"
    # The XDG specification says to ignore relative folders.
    data = environment.get("XDG_DATA_HOME", "")
    return (Path(data) if data.startswith("/") else Path.home() / ".local" / "share") / "portico"


def command(home: Path, *words: str) -> str:
    """A `portico` command for this home, quoted for the shell."""
    program = "portico" if shutil.which("portico") else sys.argv[0]
    option = [] if home == find_home(None) else ["--home", str(home)]
    return shlex.join([program, *option, *words])


def make(home: Path) -> None:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise HomeUnusable(f"The home {home} is a file; give a folder with --home DIR.") from None
    except OSError as error:
        raise HomeUnusable(
            f"The home folder {home} can't be created ({error.strerror}); give another one with --home DIR."
        ) from None
    _check(home)


def claim(home: Path) -> int | None:
    """Make this process the only gateway of the home, as long as the returned descriptor is open.

    The lock belongs to this process alone: workers do not inherit it, and so cannot hold it longer.
    """
    import fcntl  # not on Windows, where only the client runs

    try:
        descriptor = os.open(home / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.EACCES:
            return None  # a disk may be full
        raise HomeUnusable(
            f"The file {home / LOCK_FILE} can't be opened for writing ({error.strerror}); make the "
            "user who runs Portico its owner."
        ) from None
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            return None  # some network file systems have no locks
        raise HomeUnusable(
            f"Another gateway is running on the home {home}; stop it first, or give another home with --home DIR."
        ) from None
    return descriptor


def prepare(home: Path, overrides: Mapping[str, str] | None = None) -> "Settings":
    """The settings of this home, which is made if it is missing."""
    from portico.settings.settings import PROPERTIES_FILE, commented_file, generated_client, load

    make(home)
    if not (home / PROPERTIES_FILE).exists():
        from portico.runtime.private_files import write_private

        # Nodes that share a database take the client from there.
        values = {} if _names_database() else generated_client()
        write_private(home / PROPERTIES_FILE, commented_file(values), replace=False)
    return load(home, overrides=overrides)


def existing(home: Path) -> "Settings":
    """The settings of an existing home; a mistyped name does not create one."""
    from portico.settings.settings import PROPERTIES_FILE, load

    try:
        is_file = home.exists() and not home.is_dir()
    except OSError as error:
        raise HomeUnusable(
            f"The home folder {home} can't be reached ({error.strerror}); give another one with --home DIR."
        ) from None
    if is_file:
        raise HomeUnusable(f"The home {home} is a file; give a folder with --home DIR.")
    if not (home / PROPERTIES_FILE).exists():
        raise HomeUnusable(f"The Portico home {home} doesn't exist yet; create it with '{command(home, 'serve')}'.")
    _check(home)
    return load(home)


def existing_or_shared(home: Path) -> "Settings":
    """As `existing`; but a shared database that the environment names needs no home."""
    from portico.settings.settings import PROPERTIES_FILE, load

    if (home / PROPERTIES_FILE).exists() or not _names_database():
        return existing(home)
    settings = load(home)
    # There is no folder for a file.
    return replace(settings, audit_log="off")


def _names_database() -> bool:
    return any(os.environ.get(name) for name in ("PORTICO_DATABASE_URL", "PORTICO_DATABASE_URL_FILE"))


class Remembered(NamedTuple):
    """The address at which a gateway was started."""

    url: str = ""
    is_local: bool = False
    """Whether it leads to the gateway from the gateway's own machine only, although others can connect."""


def remember_address(home: Path, url: str, *, is_local: bool = False) -> None:
    """Keep the address at which the gateway was started, for links that commands print; an empty one is forgotten."""
    from portico.runtime.private_files import write_private

    with suppress(OSError):  # a full disk does not keep the gateway from serving
        if url:
            write_private(home / _ADDRESS_FILE, f"{url}{' local' * is_local}\n")
        else:
            (home / _ADDRESS_FILE).unlink(missing_ok=True)


def remembered_address(home: Path) -> Remembered:
    try:
        url, _, mark = (home / _ADDRESS_FILE).read_text("utf-8").strip().partition(" ")
    except OSError:
        return Remembered()
    return Remembered(url, mark == "local")


def _check(home: Path) -> None:
    if "?" in str(home) or "#" in str(home):
        raise HomeUnusable(
            f"The home folder {home} has a '?' or '#' in its name, which a database URL can't "
            "contain; give another one with --home DIR."
        )
    owner, me = home.stat().st_uid, _my_id()
    # Container platforms provide volumes as writable folders that belong to root.
    if owner not in (me, 0):
        raise HomeUnusable(
            f"The home folder {home} belongs to the user {_user_name(owner)}; run Portico as that "
            "user, or give another one with --home DIR."
        )
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        raise HomeUnusable(
            f"The user {_user_name(me)} can't write to the home folder {home}; change its "
            "permissions, or give another one with --home DIR."
        )


def _my_id() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


def my_name() -> str:
    return _user_name(_my_id())


def _user_name(number: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return str(number)
