"""The dashboard asks for metrics and labels that exist."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from portico.observability.metrics import FAMILIES, Metrics, render

BOARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "deploy" / "grafana" / "portico.json").read_text(encoding="utf-8")
)
LABELS_OF_ALL = {"node", "job", "instance", "le"}
"""Of Prometheus itself, of histograms, and of the join with `portico_node_info`."""


def queries() -> Iterator[tuple[str, str]]:
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def series() -> dict[str, set[str]]:
    """The name of every series as Prometheus reads it, with its labels."""
    found: dict[str, set[str]] = {}
    for name, family in FAMILIES.items():
        kinds = ("_bucket", "_count", "_sum") if family.buckets else ("_total",) if family.kind == "counter" else ("",)
        for kind in kinds:
            found[name + kind] = set(family.labels)
    return found


@pytest.mark.parametrize(("title", "query"), [*queries()])
def test_a_query_asks_for_what_there_is(title: str, query: str) -> None:
    known = series()
    names = set(re.findall(r"\bportico_\w+", query))
    assert names
    assert names <= known.keys()
    labels = {label for name in names for label in known[name]} | LABELS_OF_ALL
    for grouped in re.findall(r"by \(([\w, ]+)\)", query):
        assert set(grouped.split(", ")) <= labels, title
    assert query.count("(") == query.count(")")
    assert 'portico_node_info{node=~"$node"}' in query


def test_every_metric_is_shown() -> None:
    shown = {name for _, query in queries() for name in re.findall(r"\bportico_\w+", query)}
    for name in FAMILIES:
        assert any(each.startswith(name) for each in shown), name


def test_the_names_are_those_of_a_scrape() -> None:
    text = render([Metrics().snapshot(0)])
    typed = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    for name in series():
        base = re.sub("_(bucket|count|sum)$", "", name)
        assert name in typed or typed[base] == "histogram", name


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
