import inspect
import os
import time
from pathlib import Path

import msgspec
import pytest

from portico.drive.instrumented import InstrumentedProvider
from portico.model.errors import NotFound
from portico.model.paths import Path as FilePath
from portico.observability.metrics import FAMILIES, FRESH_SECONDS, Metrics, MetricsSnapshot, WorkerMetrics, render
from portico.providers.contract.provider import Provider
from portico.providers.contract.registry import open_provider

DOCS = Path(__file__).parents[2] / "docs" / "operations.md"


def value(text: str, sample: str) -> float:
    (found,) = [line for line in text.splitlines() if line.startswith(sample + " ")]
    return float(found.rpartition(" ")[2])


def snapshot(metrics: Metrics) -> MetricsSnapshot:
    return metrics.snapshot(time.monotonic())


@pytest.mark.parametrize("name", FAMILIES)
def test_every_metric_is_documented(name: str) -> None:
    full = f"{name}_total" if FAMILIES[name].kind == "counter" else name
    row = next(line for line in DOCS.read_text().splitlines() if line.startswith(f"| `{full}` |"))
    assert FAMILIES[name].kind in row
    assert all(f"`{label}`" in row for label in FAMILIES[name].labels)


def test_a_histogram_counts_up_to_each_bound() -> None:
    metrics = Metrics()
    for seconds in (0.0005, 0.001, 0.0011, 400.0):
        metrics.requests.observe(("list", 200), seconds)
    text = render([snapshot(metrics)])
    labels = 'action="list",status="200"'
    for bound, count in (("0.001", 2), ("0.0025", 3), ("300.0", 3), ("+Inf", 4)):
        assert value(text, f'portico_request_seconds_bucket{{{labels},le="{bound}"}}') == count
    assert value(text, f"portico_request_seconds_count{{{labels}}}") == 4
    assert value(text, f"portico_request_seconds_sum{{{labels}}}") == pytest.approx(400.0026)


def test_the_text_is_what_prometheus_reads() -> None:
    metrics = Metrics()
    metrics.sent.add(("list",), 2**53 - 1)
    metrics.provider_errors.add(('a"b\\c\nd', "s3", "stat", "not-found"))
    text = render([snapshot(metrics)])
    assert f'portico_sent_bytes_total{{action="list"}} {2**53 - 1}\n' in text
    assert r'connection="a\"b\\c\nd"' in text
    assert "portico_broken_answers_total 0\n" in text
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names)) == len(FAMILIES)


def test_workers_add_up(tmp_path: Path) -> None:
    boards = []
    for count in (1, 2):
        metrics = Metrics()
        board = WorkerMetrics(tmp_path / "metrics", metrics)
        metrics.sign_ins.add(("done",), count)
        metrics.in_progress = count
        board.publish()
        boards.append(board)
    for board in boards:
        text = render(board.read())
        assert value(text, 'portico_sign_ins_total{outcome="done"}') == 3
        assert value(text, "portico_requests_in_progress") == 3
        assert value(text, "portico_workers") == 2
    for board in boards:
        board.close()


def test_a_worker_that_was_replaced_still_counts(tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    old = Metrics()
    board = WorkerMetrics(folder, old)
    old.sign_ins.add(("done",), 5)
    old.in_progress = 7
    board.publish()
    os.close(board._lock)  # as SIGKILL does it
    staying = WorkerMetrics(folder, Metrics())
    text = render(staying.read())
    assert value(text, 'portico_sign_ins_total{outcome="done"}') == 5
    assert value(text, "portico_requests_in_progress") == 0

    joining = Metrics()
    board = WorkerMetrics(folder, joining)
    joining.sign_ins.add(("done",))
    board.close()
    assert value(render(staying.read()), 'portico_sign_ins_total{outcome="done"}') == 6
    assert {file.name for file in folder.glob("*.json")} == {"0.json", "1.json"}
    (folder / "1.json").write_bytes(b"cut off")
    assert value(render(staying.read()), 'portico_sign_ins_total{outcome="done"}') == 5
    staying.close()


def test_what_a_dead_worker_was_doing_does_not_count(tmp_path: Path) -> None:
    dead, metrics = Metrics(), Metrics()
    first, board = WorkerMetrics(tmp_path, dead), WorkerMetrics(tmp_path, metrics)
    dead.in_progress = 7
    moment = dead.snapshot(time.monotonic() - FRESH_SECONDS - 1)
    (tmp_path / "0.json").write_bytes(msgspec.json.encode(moment))
    assert value(render(board.read()), "portico_requests_in_progress") == 0
    first.close()
    board.close()


async def test_provider_calls_are_timed_and_their_errors_counted(tmp_path: Path) -> None:
    metrics = Metrics()
    provider = InstrumentedProvider(open_provider("local", {"folder": str(tmp_path)}), "disk", metrics)
    await provider.list_page(FilePath.parse(""), 10, None)
    with pytest.raises(NotFound):
        await provider.stat(FilePath.parse("none"))
    await provider.close()
    text = render([snapshot(metrics)])
    place = 'connection="disk",kind="local"'
    assert value(text, f'portico_provider_seconds_count{{{place},call="list_page"}}') == 1
    assert value(text, f'portico_provider_seconds_count{{{place},call="stat"}}') == 1
    assert value(text, f'portico_provider_errors_total{{{place},call="stat",code="not-found"}}') == 1


def test_a_measured_provider_hands_on_everything() -> None:
    """A method with a default in the contract would else be lost without a sound."""
    for name, _ in inspect.getmembers(Provider, inspect.isfunction):
        assert name.startswith("__") or name in vars(InstrumentedProvider), name
    for name in inspect.get_annotations(Provider):
        assert hasattr(InstrumentedProvider(open_provider("local", {"folder": "/"}), "disk", Metrics()), name)
