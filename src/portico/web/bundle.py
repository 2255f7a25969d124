"""The files that a browser loads, made from the sources in this folder when the gateway starts.

The sources are small ES modules. A browser that fetches them one by one waits for each level of imports, so they are
joined into one script: each module becomes a function that returns what it exports, after those that it imports. The
script stays readable, line by line. Only the forms of `import` and `export` below are understood; anything else is an
error here, and not a surprise in the browser.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

PREFIX = "/page/"
"""All addresses of the page's files begin so; the rest of an address depends on the content."""

_IMPORT = re.compile(
    r'^import (?:\* as (?P<all>\w+)|(?P<some>\{ \w+(?:, \w+)* \})) from "\./(?P<module>[\w-]+\.js)";$',
    re.MULTILINE,
)
_EXPORT = re.compile(r"^export (?P<what>(?:async )?(?:const|function|class) (?P<name>\w+))", re.MULTILINE)
_LAZY = re.compile(r'import\("\./texts/(?P<language>\w+)\.js"\)')
_LEFT_OVER = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)
_STYLES = ("portico.css", "page.css", "panels.css")


class NotUnderstood(Exception):
    """A source that cannot be joined with the others; its message names the file and the reason."""


@dataclass(frozen=True, slots=True)
class PageFiles:
    index: bytes
    assets: Mapping[str, bytes]
    """By address. What is at an address never changes: with other content it has another one."""


def build(config: Mapping[str, str]) -> PageFiles:
    """The page for a gateway with these settings, which its modules import from `config.js`."""
    web = files("portico") / "web"
    languages = {
        item.name.removesuffix(".js"): _Asset(item.name, item.read_bytes())
        for item in (web / "js" / "texts").iterdir()
        if item.name.endswith(".js")
    }
    modules = {
        item.name: item.read_text("utf-8") for item in (web / "js").iterdir() if item.name.endswith(".js")
    }
    modules["config.js"] = config_script(config)
    addresses = {language: text.address for language, text in languages.items()}
    named = [
        _Asset("page.js", join_modules(modules, "main.js", addresses).encode()),
        _Asset("page.css", b"".join((web / name).read_bytes() for name in _STYLES)),
        _Asset("icon.svg", (web / "icon.svg").read_bytes()),
    ]
    index = (web / "index.html").read_text("utf-8")
    for asset in named:
        index = index.replace(f'"{PREFIX}{asset.name}"', f'"{asset.address}"')
    return PageFiles(
        index.encode(), {asset.address: asset.content for asset in (*named, *languages.values())}
    )


def config_script(config: Mapping[str, str]) -> str:
    return "".join(f"export const {name} = {json.dumps(value)};\n" for name, value in config.items())


@dataclass(frozen=True, slots=True)
class _Asset:
    name: str
    content: bytes

    @property
    def address(self) -> str:
        return f"{PREFIX}{sha256(self.content).hexdigest()[:16]}/{self.name}"


def join_modules(modules: Mapping[str, str], entry: str, languages: Mapping[str, str]) -> str:
    """One script that does what `entry` does; `languages` are the addresses of the texts, loaded when asked for."""
    return "".join(_wrapped(name, modules[name], name == entry, languages) for name in _order(modules, entry))


def _order(modules: Mapping[str, str], entry: str) -> Iterator[str]:
    """Each module after those that it imports."""
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> Iterator[str]:
        if name in way:
            raise NotUnderstood(f"{' imports '.join((*way, name))}: modules cannot import each other.")
        if name in done:
            return
        if name not in modules:
            raise NotUnderstood(f"{way[-1]} imports {name}, which does not exist.")
        for found in _IMPORT.finditer(modules[name]):
            yield from visit(found["module"], (*way, name))
        done.add(name)
        yield name

    return visit(entry, ())


def _wrapped(name: str, source: str, is_entry: bool, languages: Mapping[str, str]) -> str:
    exported = [found["name"] for found in _EXPORT.finditer(source)]
    body = _IMPORT.sub(
        lambda found: f"const {found['all'] or found['some']} = {_variable(found['module'])};", source
    )
    body = _EXPORT.sub(lambda found: found["what"], body)
    if left := _LEFT_OVER.search(body):
        raise NotUnderstood(f"{name}: {left[0]!r} is a form of import or export that is not known here.")
    body = _LAZY.sub(lambda found: f"import({json.dumps(languages[found['language']])})", body)
    if is_entry:  # a block and not a function, so that it can await
        return f"// {name}\n{{\n{body}}}\n"
    returned = f"return {{ {', '.join(exported)} }};"
    return f"// {name}\nconst {_variable(name)} = (() => {{\n{body}{returned}\n}})();\n\n"


def _variable(module: str) -> str:
    return f"${module.removesuffix('.js').replace('-', '_')}"
