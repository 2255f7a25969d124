"""Figures, the lines that compare ours with a peer's, and their table."""

import json
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.processes import Process

_COLUMNS = (
    *("line", "Portico", "peer", "its figure", "ratio", "goal", ""),
    *("CPU s", "CPU ms each", "client's CPU s", "peak MiB"),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """What one round gave."""

    value: float
    extra: dict[str, float] = field(default_factory=dict)
    requests: float = 0.0
    """How many there were; 0 if the processor time of each says nothing."""
    client: float = 0.0
    """Seconds of processor time that the load generator took."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Medians over the rounds; memory is the most of all of them. Two figures in parentheses are the least and the most."""

    value: float
    unit: str
    cpu: float = 0.0
    peak: float = 0.0
    growth: float = 0.0
    extra: dict[str, float] = field(default_factory=dict)
    rounds: int = 1
    low: float | None = None
    high: float | None = None
    each: float = 0.0
    """Milliseconds of the server's processor time for one request."""
    client: float = 0.0

    def __str__(self) -> str:
        text = f"{_short(self.value)} {self.unit}"
        if self.rounds < 2 or self.low is None or self.high is None:
            return text
        return f"{text} ({_short(self.low)}–{_short(self.high)})"


@dataclass(frozen=True, slots=True)
class Line:
    group: str
    what: str
    ours: Figure
    peer: str = ""
    theirs: Figure | None = None
    ratio: float | None = None
    goal: float | None = None
    at_most: bool = False
    note: str = ""

    @property
    def reached(self) -> bool | None:
        if self.goal is None or self.ratio is None:
            return None
        return self.ratio <= self.goal if self.at_most else self.ratio >= self.goal

    @property
    def verdict(self) -> str:
        if self.reached is None or self.ratio is None or self.goal is None:
            return ""
        if self.reached:
            return "reached"
        off = self.ratio / self.goal - 1 if self.at_most else 1 - self.ratio / self.goal
        return f"MISSED by {off:.0%}"


@dataclass(frozen=True, slots=True)
class Contestant:
    work: Callable[[], Sample]
    server: Process | None = None
    tidy: Callable[[], None] | None = None
    """Runs after each round, unmeasured."""


class Budget:
    """The time that a group may take; after that, each remaining line gets one round."""

    def __init__(self) -> None:
        self._end = math.inf

    def start(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def spent(self) -> bool:
        return time.monotonic() > self._end


BUDGET = Budget()


def in_turns(
    rounds: int, unit: str, contestants: Mapping[str, Contestant], seconds: float = math.inf
) -> dict[str, Figure]:
    """Every contestant once, then every one again: what disturbs the machine disturbs all of them. After `seconds`
    there are no more rounds than three."""
    end = time.monotonic() + seconds
    samples: dict[str, list[Sample]] = {name: [] for name in contestants}
    usages: dict[str, list[tuple[float, float, float]]] = {name: [] for name in contestants}
    for number in range(rounds):
        if (number and BUDGET.spent) or (number > 2 and time.monotonic() > end):
            break
        for name, contestant in contestants.items():
            if contestant.server:
                contestant.server.mark()
            samples[name].append(contestant.work())
            if contestant.server:
                used = contestant.server.usage()
                usages[name].append((used.cpu, used.peak, used.growth))
            if contestant.tidy:
                contestant.tidy()
    return {name: _figure(samples[name], usages[name], unit) for name in contestants}


def _figure(samples: list[Sample], usages: list[tuple[float, float, float]], unit: str) -> Figure:
    keys = samples[0].extra
    extra = {key: statistics.median(sample.extra[key] for sample in samples) for key in keys}
    cpu, peak, growth = ([used[index] for used in usages] or [0.0] for index in range(3))
    values = [sample.value for sample in samples]
    each = [1000 * used[0] / sample.requests for sample, used in zip(samples, usages, strict=False) if sample.requests]
    return Figure(
        statistics.median(values),
        unit,
        statistics.median(cpu),
        max(peak),
        max(growth),
        extra,
        len(samples),
        min(values),
        max(values),
        statistics.median(each) if each else 0.0,
        statistics.median(sample.client for sample in samples),
    )


def rate_line(
    group: str, what: str, ours: Figure, peer: str, theirs: Figure, goal: float | None = None, note: str = ""
) -> Line:
    """More is better: ours over theirs."""
    return Line(group, what, ours, peer, theirs, ours.value / theirs.value, goal, note=note)


def time_line(
    group: str, what: str, ours: Figure, peer: str, theirs: Figure, goal: float | None = None, note: str = ""
) -> Line:
    """Less is better: how many times as fast ours is."""
    return Line(group, what, ours, peer, theirs, theirs.value / ours.value, goal, note=note)


def share_line(
    group: str, what: str, ours: Figure, peer: str, theirs: Figure, goal: float | None = None, note: str = ""
) -> Line:
    """Less is better: ours as a multiple of theirs, with a most that it may be."""
    ratio = ours.value / theirs.value if theirs.value else None
    return Line(group, what, ours, peer, theirs, ratio, goal, at_most=True, note=note)


def render(lines: list[Line]) -> str:
    """A Markdown table for each group, with the notes below it."""
    parts: list[str] = []
    for group in dict.fromkeys(line.group for line in lines):
        members = [line for line in lines if line.group == group]
        rows = _filled([_COLUMNS, *(_row(line) for line in members)])
        rows.insert(1, tuple("-" for _ in rows[0]))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        parts.append(f"\n## {group}\n")
        for row in rows:
            cells = (text.ljust(width, "-" if text == "-" else " ") for text, width in zip(row, widths, strict=True))
            parts.append("| " + " | ".join(cells) + " |")
        notes = dict.fromkeys(line.note for line in members if line.note)
        parts += ["", *(f"- {note}" for note in notes)] if notes else []
    goals = [line for line in lines if line.reached is not None]
    if goals:
        reached = sum(line.reached or False for line in goals)
        parts.append(f"\n{reached} of {len(goals)} goals reached.")
        parts += [f"  {line.verdict}: {line.what} against {line.peer}" for line in goals if not line.reached]
    return "\n".join(parts)


def _filled(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Without the columns that are empty below their head."""
    kept = [column for column in range(len(rows[0])) if any(row[column] for row in rows[1:])]
    return [tuple(row[column] for column in kept) for row in rows]


def _row(line: Line) -> tuple[str, ...]:
    theirs = line.theirs
    goal = "" if line.goal is None else f"{'≤' if line.at_most else '≥'} {line.goal:g}×"
    return (
        line.what,
        _with_tail(line.ours),
        line.peer,
        _with_tail(theirs) if theirs else "",
        "" if line.ratio is None else f"{_short(line.ratio)}×",
        goal,
        line.verdict,
        _pair(line.ours.cpu, theirs.cpu if theirs else 0.0, 2),
        _pair(line.ours.each, theirs.each if theirs else 0.0, 3),
        _pair(line.ours.client, theirs.client if theirs else 0.0, 2),
        _pair(line.ours.peak, theirs.peak if theirs else 0.0, 0),
    )


def _with_tail(figure: Figure) -> str:
    tail = figure.extra.get("p99 ms")
    return f"{figure}, p99 {_short(tail)} ms" if tail is not None else str(figure)


def _pair(ours: float, theirs: float, digits: int) -> str:
    if not ours and not theirs:
        return ""
    return f"{ours:.{digits}f} / {theirs:.{digits}f}" if theirs else f"{ours:.{digits}f}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def save(lines: list[Line], facts: dict[str, object], file: Path) -> None:
    entries = [{**asdict(line), "reached": line.reached} for line in lines]
    file.write_text(json.dumps({**facts, "lines": entries}, indent=1, ensure_ascii=False) + "\n")
