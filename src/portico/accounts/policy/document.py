"""YAML with line numbers, read strictly: no tags, no aliases, no second document.

Plain words are text unless they are `true`, `false`, `null` or a number, as in YAML 1.2: `no` is not a boolean.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

from portico.model.errors import InvalidRequest

MAX_BYTES: Final = 4 * 1024 * 1024
_MAX_DEPTH: Final = 16
_MAX_MISTAKES: Final = 20
"""Shown at once."""

_PLACEHOLDER = re.compile(r"\{\w+\}")
_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE, _FALSE = re.compile(r"true|True|TRUE"), re.compile(r"false|False|FALSE")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")  # fmt: skip


class PolicyMistake(InvalidRequest):
    """The file can't be used as it is. The detail has a line for each mistake, which begins with file and line."""


@dataclass(slots=True)
class Node:
    line: int
    value: "str | bool | float | list[Node] | dict[str, Node] | None"
    key_line: int = 0
    """Of the key that it belongs to, if any."""

    @property
    def plain(self) -> Any:
        """As the values of Python and JSON."""
        if isinstance(self.value, list):
            return [each.plain for each in self.value]
        if isinstance(self.value, dict):
            return {key: each.plain for key, each in self.value.items()}
        return self.value


@dataclass(slots=True)
class Mistakes:
    """The mistakes in a file, collected to be reported together."""

    file: str
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, sentence: str) -> None:
        self.found.append((line, sentence))

    def check(self) -> None:
        """`PolicyMistake` if there are any."""
        if not self.found:
            return
        found = sorted(dict.fromkeys(self.found), key=lambda each: each[0])
        lines = [f"{self.file}:{line}: {sentence}" for line, sentence in found[:_MAX_MISTAKES]]
        if more := len(found) - len(lines):
            lines.append(f"{self.file}: There {'is 1 more mistake' if more == 1 else f'are {more} more mistakes'}.")
        raise PolicyMistake("\n".join(lines))

    # Checks of values. Each returns None after a mistake, and for a missing value.

    def mapping(self, node: Node | None, what: str, known: Collection[str] | None = None) -> dict[str, Node]:
        """The values by their keys, of which all are `known`; none for an empty value."""
        if node is None or node.value is None:
            return {}
        if not isinstance(node.value, dict):
            self.add(node.line, f"{what} must be a mapping, with lines like 'key: value'.")
            return {}
        if known is None:
            return node.value
        for key, each in node.value.items():
            if key not in known:
                self.add(each.key_line, f"Unknown key {key[:64]!r}{hint(key, known)}")
        return {key: each for key, each in node.value.items() if key in known}

    def sequence(self, node: Node | None, what: str) -> list[Node]:
        if node is None or node.value is None:
            return []
        if not isinstance(node.value, list):
            self.add(node.line, f"{what} must be a list, like [one, two].")
            return []
        return node.value

    def text(self, node: Node | None, what: str) -> str | None:
        if node is None:
            return None
        if isinstance(node.value, str):
            return node.value
        if node.value is None:
            self.add(node.line, f"{what} has no value.")
        elif isinstance(node.value, list | dict):
            self.add(node.line, f"{what} must be a single value.")
        else:
            self.add(node.line, f"{what} must be text; put the value in quotes.")
        return None

    def flag(self, node: Node | None, what: str) -> bool | None:
        if node is None or isinstance(node.value, bool):
            return None if node is None else bool(node.value)
        self.add(node.line, f"{what} must be true or false.")
        return None


def hint(word: str, known: Collection[str], *, listing: bool = True) -> str:
    """The end of a sentence about an unknown word."""
    if near := get_close_matches(word.casefold(), known, n=1, cutoff=0.6):
        return f"; did you mean {str(near[0])!r}?"
    return f"; use one of {', '.join(known)}." if known and listing else "."


def parse(text: str, mistakes: Mistakes) -> Node:
    """The only document in `text`, as the value of a node; its value is None if it is empty."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Composer(yaml.parse(text, Loader=loader), mistakes).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line if mark else 0
        problem = f"This is not valid YAML: {error.problem or error.context}."
        written = next(islice(text.split("\n"), line, None), "")
        if "\t" in written:
            problem = "This is not valid YAML: use spaces instead of tabs."
        elif _PLACEHOLDER.search(written):
            problem += " Put text with braces in quotes."
        mistakes.add(line + 1, problem)
    except yaml.YAMLError:  # of a reader, which has no lines
        mistakes.add(_line_of_forbidden(text), "This character is not allowed in YAML.")
    mistakes.check()
    raise AssertionError


def _line_of_forbidden(text: str) -> int:
    found = re.search("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
    return text.count("\n", 0, found.start()) + 1 if found else 1


class _Composer:
    """Makes nodes of YAML's events."""

    def __init__(self, events: Iterator[Any], mistakes: Mistakes) -> None:
        self._events = events
        self._mistakes = mistakes

    def document(self) -> Node:
        from yaml import events as kinds

        root = Node(1, None)
        documents = 0
        for event in self._events:
            if isinstance(event, kinds.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._refuse(event, "A file can have only one document; remove this '---' and what follows.")
                root = self._node(next(self._events), 0)
        return root

    def _node(self, event: Any, depth: int) -> Node:
        from yaml import events as kinds

        line = event.start_mark.line + 1
        if isinstance(event, kinds.AliasEvent) or event.anchor:
            self._refuse(event, "Anchors and aliases (& and *) are not supported; write the values out.")
        if event.tag:
            self._refuse(event, "Tags (!) are not supported; remove it, or put the value in quotes.")
        if depth > _MAX_DEPTH:
            self._refuse(event, "This is nested too deeply.")
        if isinstance(event, kinds.ScalarEvent):
            return Node(line, _resolved(event.value) if event.implicit[0] else event.value)
        if isinstance(event, kinds.SequenceStartEvent):
            items = []
            while not isinstance(event := next(self._events), kinds.SequenceEndEvent):
                items.append(self._node(event, depth + 1))
            return Node(line, items)
        return Node(line, self._mapping(depth))

    def _mapping(self, depth: int) -> dict[str, Node]:
        from yaml import events as kinds

        values: dict[str, Node] = {}
        while not isinstance(event := next(self._events), kinds.MappingEndEvent):
            key = self._node(event, depth + 1)
            if not isinstance(event, kinds.ScalarEvent):
                self._refuse(event, "A key must be a single word; put it in quotes if it has braces or brackets.")
            name = str(event.value)
            value = self._node(next(self._events), depth + 1)
            value.key_line = key.line
            if name in values:
                self._mistakes.add(
                    key.line, f"{name[:64]!r} is already on line {values[name].key_line}; remove one of them."
                )
            else:
                values[name] = value
        return values

    def _refuse(self, event: Any, sentence: str) -> None:
        self._mistakes.add(event.start_mark.line + 1, sentence)
        self._mistakes.check()


def _resolved(text: str) -> str | bool | float | None:
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text) or _FALSE.fullmatch(text):
        return _TRUE.fullmatch(text) is not None
    return 0.0 if _NUMBER.fullmatch(text) else text  # no value of a policy is a number
