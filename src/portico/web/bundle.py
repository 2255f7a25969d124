"""Bundles the page's sources into the files that a browser loads. Runs when a worker is first asked for the page.

The sources are small ES modules. Loading them one by one would cost a round trip per level of imports, so they are
joined into one script: each module becomes a function that returns its exports, in dependency order. The script stays
readable, but without the comments that have lines of their own: they are a quarter of what is sent. Only the forms of
`import` and `export` matched below are supported; anything else raises here instead of failing in the browser.
"""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from portico.web import PREFIX

_IMPORT = re.compile(
    r'^import (?:\* as (?P<all>\w+)|(?P<some>\{ \w+(?:, \w+)* \})) from "(?P<module>\.\.?/[\w./-]+\.js)";$',
    re.MULTILINE,
)
_EXPORT = re.compile(r"^export (?P<what>(?:async )?(?:const|function|class) (?P<name>\w+))", re.MULTILINE)
_LAZY = re.compile(r'import\("\./messages/(?P<language>\w+)\.js"\)')
_COMMENT = re.compile(r"^[ \t]*(?:/\*\*(?:[^*]|\*(?!/))*\*/[ \t]*|//.*)\n", re.MULTILINE)
_LEFT_OVER = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)
_MESSAGES = "i18n/messages/"
"""One file per language. These are not bundled: the page loads the one it needs."""
_STYLES = ("portico.css", "page.css", "panels.css", "sharing.css")


class BundleError(Exception):
    """A source cannot be bundled. The message names the file and the reason."""


@dataclass(frozen=True, slots=True)
class PageFiles:
    index: bytes
    guest: bytes
    """The page of share links."""
    assets: Mapping[str, bytes]
    """Content by path. Paths contain a hash of the content, so clients may cache them forever."""


def build(config: Mapping[str, object]) -> PageFiles:
    """Bundle the page; its modules import `config` from `config.js`."""
    web = files("portico") / "web"
    sources = dict(_scripts(web / "js"))
    languages = {
        posixpath.basename(name).removesuffix(".js"): _Asset(posixpath.basename(name), source.encode())
        for name, source in sources.items()
        if name.startswith(_MESSAGES)
    }
    sources["config.js"] = config_script({**config, "isGuestPage": False})
    addresses = {language: asset.address for language, asset in languages.items()}
    # A guest's page has the same modules; only the session is another one.
    for_guests = {
        **sources,
        "api/session.js": sources["api/guest-session.js"],
        "config.js": config_script({**config, "isGuestPage": True}),
    }
    named = [
        _Asset("guest.js", join_modules(for_guests, "guest.js", addresses).encode()),
        _Asset("page.js", join_modules(sources, "main.js", addresses).encode()),
        _Asset("page.css", b"".join((web / name).read_bytes() for name in _STYLES)),
        _Asset("icon.svg", (web / "icon.svg").read_bytes()),
    ]
    index = (web / "index.html").read_text("utf-8")
    guest = index.replace(f'"{PREFIX}page.js"', f'"{PREFIX}guest.js"')
    for asset in named:
        index, guest = (page.replace(f'"{PREFIX}{asset.name}"', f'"{asset.address}"') for page in (index, guest))
    return PageFiles(
        index.encode(), guest.encode(), {asset.address: asset.content for asset in (*named, *languages.values())}
    )


def _scripts(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _scripts(item, f"{prefix}{item.name}/")
        elif item.name.endswith(".js"):
            yield prefix + item.name, item.read_text("utf-8")


def config_script(config: Mapping[str, object]) -> str:
    return "".join(f"export const {name} = {json.dumps(value)};\n" for name, value in config.items())


@dataclass(frozen=True, slots=True)
class _Asset:
    name: str
    content: bytes

    @property
    def address(self) -> str:
        return f"{PREFIX}{sha256(self.content).hexdigest()[:16]}/{self.name}"


def join_modules(modules: Mapping[str, str], entry: str, languages: Mapping[str, str]) -> str:
    """Join `entry` and everything it imports. `languages` maps each language to the address of its messages."""
    return "".join(_wrapped(name, modules[name], name == entry, languages) for name in _order(modules, entry))


def _order(modules: Mapping[str, str], entry: str) -> Iterator[str]:
    """The modules in dependency order, `entry` last."""
    done: set[str] = set()

    def visit(name: str, importers: tuple[str, ...]) -> Iterator[str]:
        if name in importers:
            raise BundleError(f"{' imports '.join((*importers, name))}: circular imports are not supported.")
        if name in done:
            return
        if name not in modules:
            raise BundleError(f"{importers[-1]} imports {name}, which does not exist.")
        for found in _IMPORT.finditer(modules[name]):
            yield from visit(_resolve(found["module"], name), (*importers, name))
        done.add(name)
        yield name

    return visit(entry, ())


def _wrapped(name: str, source: str, is_entry: bool, languages: Mapping[str, str]) -> str:
    source = _COMMENT.sub("", source)
    exported = [found["name"] for found in _EXPORT.finditer(source)]
    body = _IMPORT.sub(
        lambda found: f"const {found['all'] or found['some']} = {_variable(_resolve(found['module'], name))};", source
    )
    body = _EXPORT.sub(lambda found: found["what"], body)
    if left := _LEFT_OVER.search(body):
        raise BundleError(f"{name}: {left[0]!r} is a form of import or export that is not supported.")
    body = _LAZY.sub(lambda found: f"import({json.dumps(languages[found['language']])})", body)
    if is_entry:  # a block rather than a function, for top-level await
        return f"// {name}\n{{\n{body}}}\n"
    returned = f"return {{ {', '.join(exported)} }};"
    return f"// {name}\nconst {_variable(name)} = (() => {{\n{body}{returned}\n}})();\n\n"


def _resolve(specifier: str, importer: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), specifier))


def _variable(module: str) -> str:
    return f"${module.removesuffix('.js').replace('/', '$').replace('-', '_')}"
