"""Where settings are written: `application.properties`, the environment, and a file of variables."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path

import javaproperties
import msgspec

ENVIRONMENT_PREFIX = "PORTICO_"
NOT_SETTINGS = re.compile(
    r"PORTICO_(HOME|ENVIRONMENT_FILE|SECRET_KEY|SECRET_KEY_FILE|URL|TOKEN|PROFILE|LIVE_.*|SERVICE_.*|PORT|PORT_.*)"
)
"""Portico's variables that are not settings, and those that Kubernetes sets for a service called `portico`."""

_OTHERS = ("PORTICO_HOME", "PORTICO_SECRET_KEY", "PORTICO_SECRET_KEY_FILE")
IN_FILE = "_FILE"
"""Ends the variable that names a file with the value, as container platforms provide secrets."""

NOT_SET = "is not set"

ENVIRONMENT_FILE = "PORTICO_ENVIRONMENT_FILE"
"""Names the file that the service manager took the environment from: only a process can read it again while it runs."""

_RENAMED = {
    "uploads.expire-after": "upload.unfinished-retention",
    "uploads.digest": "upload.digest",
    "trash.keep": "trash.retention",
    "audit.keep": "journal.retention",
    "audit.retention": "journal.retention",
    "health.addresses": "health.allowed-addresses",
    "database.connections": "database.max-connections",
    "limits.path-depth": "path.max-depth",
}
"""The old keys and the new ones. An old one is refused: ignoring it would apply the default instead."""

_BLANKS = " \t\n\r"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Mistake(msgspec.Struct, frozen=True):
    """A mistake: its file and line, if it is in a file, the key, variable or flag, and the reason."""

    file: Path | None
    line: int | None
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file and self.line else str(self.file or "")
        text = f"{self.key} {self.message}" if self.message == NOT_SET else ""
        parts = (place, text) if text else (place, self.key, self.message)
        return ": ".join(part for part in parts if part)


class Given(msgspec.Struct, frozen=True):
    """A value as it is written, and where."""

    text: str
    file: Path | None
    line: int | None
    name: str


def from_file(file: Path, keys: Collection[str]) -> tuple[dict[str, Given], list[Mistake]]:
    found: dict[str, Given] = {}
    mistakes = []
    line = 1
    try:
        text = file.read_bytes().decode("utf-8-sig")
        for element in javaproperties.parse(text):
            if isinstance(element, javaproperties.KeyValue):
                key = element.key
                if key not in keys:
                    mistakes.append(Mistake(file, line, key, _unknown(key, keys, _RENAMED)))
                elif key in found:
                    mistakes.append(Mistake(file, line, key, f"is already set in line {found[key].line}"))
                else:
                    found[key] = Given(element.value.strip(), file, line, key)
            line += len(element.source.splitlines())
    except FileNotFoundError:
        pass
    except OSError as error:
        mistakes.append(Mistake(file, None, "", f"can't be read ({error.strerror})"))
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        mistakes.append(Mistake(file, line, "", "is not valid UTF-8; save the file in that encoding"))
    except javaproperties.InvalidUEscapeError as error:
        mistakes.append(Mistake(file, line, "", f"contains {error.escape!r}; write a backslash as two"))
    return found, mistakes


def with_values(text: str, values: Mapping[str, str]) -> str:
    """The text of a settings file that has these values; the rest stays as it is."""
    properties = javaproperties.PropertiesFile.loads(text.removeprefix("\ufeff"))
    for key, value in values.items():
        properties[key] = value
    return properties.dumps()


def from_environment(environment: Mapping[str, str], keys: Collection[str]) -> tuple[dict[str, Given], list[Mistake]]:
    environment, unread = _with_file(environment)
    names = {variable(key): key for key in keys}
    files = {name + IN_FILE: key for name, key in names.items()}
    renamed = {variable(old) + end: variable(new) + end for old, new in _RENAMED.items() for end in ("", IN_FILE)}
    groups = tuple({name[: name.index("_", len(ENVIRONMENT_PREFIX)) + 1] for name in names})
    found = {names[name]: Given(text.strip(), None, None, name) for name, text in environment.items() if name in names}
    mistakes = unread + [
        Mistake(None, None, name, _unknown(name, [*names, *_OTHERS], renamed))
        for name in environment
        if name.startswith(ENVIRONMENT_PREFIX) and name not in names and name not in files
        if not NOT_SETTINGS.fullmatch(name)
        if name in renamed or name.startswith(groups) or get_close_matches(name, [*names, *_OTHERS], n=1, cutoff=0.85)
    ]
    for name in files.keys() & {name for name, text in environment.items() if text}:
        if files[name] in found:
            other = name.removesuffix(IN_FILE)
            mistakes.append(Mistake(None, None, name, f"is set together with {other}; set only one of them"))
            continue
        file = Path(environment[name])
        text, why = _read(file)
        if why:
            mistakes.append(Mistake(file, None, name, why))
        else:
            found[files[name]] = Given(text.strip(), file, None, name)
    return found, mistakes


def _read(file: Path, *, required: bool = True) -> tuple[str, str]:
    """The text of a file, and why it can't be read; one that is not `required` may be missing."""
    try:
        return file.read_text("utf-8"), ""
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not required:
            return "", ""
        return "", f"can't be read ({error.strerror})"
    except UnicodeDecodeError:
        return "", "is not valid UTF-8"


def _with_file(environment: Mapping[str, str]) -> tuple[Mapping[str, str], list[Mistake]]:
    """The environment, with the variables of the file that it names as they are written now."""
    if not (name := environment.get(ENVIRONMENT_FILE)):
        return environment, []
    file = Path(name)
    text, why = _read(file, required=False)
    return {**environment, **variables(text)}, [Mistake(file, None, "", why)] if why else []


def variables(text: str) -> dict[str, str]:
    """The variables of a file, as `EnvironmentFile=` of systemd reads it. A `$` means nothing; no shell does the same."""
    found: dict[str, str] = {}
    characters = iter(text)
    for character in characters:
        if character in "#;":
            _until(characters, "\n\r")
        elif character not in _BLANKS:
            name, end = _until(characters, "=\n\r")
            name = (character + name).rstrip()
            if end == "=":
                value = _value(characters)
                if _NAME.fullmatch(name):
                    found[name] = value
    return found


def _until(characters: Iterator[str], ends: str) -> tuple[str, str]:
    """What comes before the first of `ends`, and that one."""
    read = ""
    for character in characters:
        if character in ends:
            return read, character
        read += character
    return read, ""


def _value(characters: Iterator[str]) -> str:
    """A value to the end of its line. Pieces in quotes are joined; a backslash at the end continues the line."""
    value, blanks, started = "", "", False
    for character in characters:
        if character in "\n\r":
            break
        if character in "'\"" and not started:
            value += _until(characters, "'")[0] if character == "'" else _double_quoted(characters)
        elif character == "\\":
            escaped = next(characters, "\n")
            value, blanks, started = value + blanks + escaped.strip("\n"), "", True
        elif character in _BLANKS:
            blanks += character if started else ""
        else:
            value, blanks, started = value + blanks + character, "", True
    return value


def _double_quoted(characters: Iterator[str]) -> str:
    value = ""
    for character in characters:
        if character == '"':
            break
        if character == "\\":
            character = next(characters, "\n")
            if character not in '"\\`$':
                character = "" if character == "\n" else f"\\{character}"
        value += character
    return value


def _unknown(name: str, known: Iterable[str], renamed: Mapping[str, str]) -> str:
    if new := renamed.get(name):
        return f"was renamed; use {new}"
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"is not a setting; did you mean {near[0]}?" if near else "is not a setting; see docs/settings.md"


def variable(key: str) -> str:
    return ENVIRONMENT_PREFIX + re.sub("[.-]", "_", key).upper()
