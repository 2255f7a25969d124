"""How costs grow: the exponent of a fit over three sizes, 0 where the size does not matter, 1 where it is all."""

import math
from collections.abc import Callable, Iterator
from functools import partial

from bench import crowds
from bench.listing import page
from bench.load import hammer, request
from bench.processes import apart
from bench.servers import FILES, Home, Portico, form_of
from bench.table import BUDGET, Figure, Line, share_line
from bench.workspace import Workspace, say

GROUP = "growth"
_ALLOWED = 0.1
_SIZES = (1000, 10_000, 100_000)
_UPLOADS = 300
_NOTE = (
    "Exponent: the slope of a straight line through log(cost) over log(size). Object stores answer a page with one"
    " call, whatever the folder's size: see the calls counted above."
)


def exponent(costs: dict[int, float]) -> float:
    """The slope of least squares through the logarithms."""
    points = [(math.log(size), math.log(cost)) for size, cost in costs.items()]
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    above = sum((x - middle_x) * (y - middle_y) for x, y in points)
    return above / sum((x - middle_x) ** 2 for x, _ in points)


def lowest_of(rounds: int, works: dict[int, Callable[[], float]]) -> dict[int, float]:
    """The lowest of the medians of each round, in turns: of three close figures, noise must not make a slope."""
    found: dict[int, list[float]] = {size: [] for size in works}
    for number in range(rounds):
        if number > 1 and BUDGET.spent:
            break
        for size, work in works.items():
            found[size].append(work())
    return {size: min(costs) for size, costs in found.items()}


def measure(work: Workspace, quick: bool) -> Iterator[Line]:
    yield from _pages(work, quick)
    yield from _uploads(work, quick)
    for what, costs in crowds.costs(work, 1 if quick else 2):
        yield _line(what, "ms CPU", costs)


def _line(what: str, unit: str, costs: dict[int, float]) -> Line:
    shown = ", ".join(f"{size:,}: {cost:.2f} {unit}" for size, cost in costs.items())
    allowed = Figure(_ALLOWED, "allowed")
    return share_line(GROUP, f"{what} ({shown})", Figure(exponent(costs), "exponent"), "", allowed, 1.0, _NOTE)


def _pages(work: Workspace, quick: bool) -> list[Line]:
    say("growth: pages of folders of three sizes")
    sizes = (10_000, 100_000, 1_000_000)
    home = Home(work, "home-growth")
    home.add("files", "local", folder=str(work.kept))
    gateway = Portico(home)
    lines = []

    def latency(content: bytes) -> float:
        return float(apart(hammer, gateway.target, [content], 1, 0.25).p50 * 1000)

    try:
        for size in (250, 1000):
            contents = {count: page(gateway, work.big_folder(count).name, size) for count in sizes}
            for content in contents.values():
                apart(hammer, gateway.target, [content], 1, 0.2)
            figures = lowest_of(
                2 if quick else 5, {count: partial(latency, content) for count, content in contents.items()}
            )
            lines.append(_line(f"page of {size}, warm", "ms", figures))
    finally:
        gateway.stop()
    return lines


def _uploads(work: Workspace, quick: bool) -> list[Line]:
    say("growth: uploads into folders of three sizes")
    top = work.make("growth")
    for size in _SIZES:
        (top / str(size)).mkdir()
        for number in range(size):
            (top / str(size) / f"old-{number}").touch()
    home = Home(work, "home-growth-uploads")
    home.add("up", "local", folder=str(top))
    gateway = Portico(home)
    headers = gateway.bearer("up")
    rounds: dict[int, int] = dict.fromkeys(_SIZES, 0)

    def upload(size: int) -> float:
        rounds[size] += 1
        contents = []
        for number in range(_UPLOADS):
            more, body = form_of([(f"new-{rounds[size]}-{number}", b"x" * 1024)])
            contents.append(request("POST", f"{FILES}/{size}", {**headers, **more}, body))
        return float(apart(hammer, gateway.target, contents, 1).p50 * 1000)

    try:
        upload(_SIZES[0])
        costs = lowest_of(2 if quick else 5, {size: partial(upload, size) for size in _SIZES})
    finally:
        gateway.stop()
    return [_line("an upload of 1 KiB", "ms", costs)]
