"""Where settings are written: `application.properties`, and the environment."""

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

import javaproperties
import msgspec

ENVIRONMENT_PREFIX = "PORTICO_"
NOT_SETTINGS = re.compile(
    r"PORTICO_(HOME|SECRET_KEY|SECRET_KEY_FILE|URL|TOKEN|PROFILE|LIVE_.*|SERVICE_.*|PORT|PORT_.*)"
)
"""Portico's variables that are not settings, and those that Kubernetes sets for a service called `portico`."""

_OTHERS = ("PORTICO_HOME", "PORTICO_SECRET_KEY", "PORTICO_SECRET_KEY_FILE")
IN_FILE = "_FILE"
"""Ends the variable that names a file with the value, as container platforms provide secrets."""

NOT_SET = "is not set"


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
                    mistakes.append(Mistake(file, line, key, _unknown(key, keys)))
                elif key in found:
                    mistakes.append(Mistake(file, line, key, f"is already set in line {found[key].line}"))
                else:
                    found[key] = Given(element.value.strip(), file, line, key)
            line += len(element.source.splitlines())
    except FileNotFoundError:
        pass
    except OSError as error:
        mistakes.append(Mistake(file, None, "", f"cannot be read ({error.strerror})"))
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        mistakes.append(Mistake(file, line, "", "is not valid UTF-8; save the file in that encoding"))
    except javaproperties.InvalidUEscapeError as error:
        mistakes.append(Mistake(file, line, "", f"contains {error.escape!r}; write a backslash as two"))
    return found, mistakes


def from_environment(
    environment: Mapping[str, str], keys: Collection[str]
) -> tuple[dict[str, Given], list[Mistake]]:
    names = {variable(key): key for key in keys}
    files = {name + IN_FILE: key for name, key in names.items()}
    groups = tuple({name[: name.index("_", len(ENVIRONMENT_PREFIX)) + 1] for name in names})
    found = {
        names[name]: Given(text.strip(), None, None, name)
        for name, text in environment.items()
        if name in names
    }
    mistakes = [
        Mistake(None, None, name, _unknown(name, [*names, *_OTHERS]))
        for name in environment
        if name.startswith(ENVIRONMENT_PREFIX) and name not in names and name not in files
        if not NOT_SETTINGS.fullmatch(name)
        if name.startswith(groups) or get_close_matches(name, [*names, *_OTHERS], n=1, cutoff=0.85)
    ]
    for name in files.keys() & {name for name, text in environment.items() if text}:
        if files[name] in found:
            other = name.removesuffix(IN_FILE)
            mistakes.append(Mistake(None, None, name, f"is set, and so is {other}; set one of them"))
            continue
        file = Path(environment[name])
        try:
            found[files[name]] = Given(file.read_text("utf-8").strip(), file, None, name)
        except OSError as error:
            mistakes.append(Mistake(file, None, name, f"cannot be read ({error.strerror})"))
        except UnicodeDecodeError:
            mistakes.append(Mistake(file, None, name, "is not valid UTF-8"))
    return found, mistakes


def _unknown(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"is not a setting; did you mean {near[0]}?" if near else "is not a setting; see docs/settings.md"


def variable(key: str) -> str:
    return ENVIRONMENT_PREFIX + re.sub("[.-]", "_", key).upper()
