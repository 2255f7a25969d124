"""The alert rules and the dashboard name metrics that a real gateway has."""

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from portico.observability.metrics import FAMILIES

from ..gateways import WAIT, Gateway, free_port, wait_until
from .files import parsed
from .test_grafana import queries

RULES = [rule for group in parsed("prometheus/alerts.yaml")["groups"] for rule in group["rules"]]
SHOWN_AT_ONCE = {name for name, family in FAMILIES.items() if family.kind == "gauge"} | {
    "portico_sweeps_failed_total",
    "portico_audit_lost_lines_total",
    "portico_mass_changes_total",
    "portico_broken_answers_total",
}


def names(query: str) -> set[str]:
    return set(re.findall(r"\bportico_\w+", query))


class Scrape:
    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = set(re.findall(r"^(portico_\w+)", text, re.MULTILINE))
        typed = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
        self.names = {
            name + end
            for name, kind in typed
            for end in (("_bucket", "_count", "_sum") if kind == "histogram" else ("",))
        }

    def value(self, name: str) -> float:
        found = re.findall(rf"^{name} (\S+)$", self.text, re.MULTILINE)
        return float(found[0]) if found else -1


class Scraped(Gateway):
    def scrape(self) -> Scrape:
        port = self.settings["PORTICO_METRICS_ADDRESS"].rpartition(":")[2]
        try:
            return Scrape(httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=WAIT).text)
        except httpx2.TransportError:
            return Scrape("")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    settings = {"PORTICO_METRICS_ADDRESS": f"127.0.0.1:{free_port()}"}
    home = tmp_path_factory.mktemp("alerts") / "home"
    gateway = Scraped(home, "--workers", "1", tls=True, settings=settings)
    gateway.start()
    wait_until(lambda: "portico_last_backup_timestamp_seconds" in gateway.scrape().samples, "it has looked")
    yield gateway
    gateway.stop()


def test_every_metric_of_the_rules_and_of_the_dashboard_is_scraped(gateway: Scraped) -> None:
    asked = {name for rule in RULES for name in names(rule["expr"])}
    asked |= {name for _, query in queries() for name in names(query)}
    wait_until(lambda: asked & SHOWN_AT_ONCE <= gateway.scrape().samples, "every gauge has a value")
    assert asked <= gateway.scrape().names


def test_the_values(gateway: Scraped) -> None:
    first = gateway.scrape()
    assert first.value("portico_last_backup_timestamp_seconds") == 0
    assert first.value("portico_uploads_unfinished") == 0
    assert first.value("portico_certificate_expiry_timestamp_seconds") > time.time() + 86400
    place = r'\{connection="local"\}'
    assert 0 < first.value(f"portico_storage_free_bytes{place}") < first.value(f"portico_storage_size_bytes{place}")
    assert 0 < first.value("portico_home_free_bytes") < first.value("portico_home_size_bytes")
    assert 0 <= first.value("portico_database_connections_in_use") <= first.value("portico_database_connections_max")
    assert first.value(r'portico_sweeps_failed_total\{sweep="uploads"\}') == 0


def test_a_backup_and_an_upload_are_seen(gateway: Scraped, tmp_path: Path) -> None:
    began = int(time.time())
    gateway.command("backup", str(tmp_path / "portico.backup"))
    with gateway.signed_in() as client:
        headers = {"Tus-Resumable": "1.0.0", "Upload-Length": "10", "Upload-Metadata": "filename YS50eHQ="}
        assert client.post("/backend/1.0.0/uploads", headers=headers).status_code == 201
    with closing(sqlite3.connect(gateway.home / "portico.db")) as database:
        [(noted,)] = database.execute("SELECT value FROM cluster WHERE name = 'last-backup'").fetchall()
    gateway.stop()
    gateway.start()  # it looks at its start, and once a minute
    wait_until(lambda: gateway.scrape().value("portico_uploads_unfinished") == 1, "the upload is counted")
    assert gateway.scrape().value("portico_last_backup_timestamp_seconds") == float(noted) >= began


def test_the_first_increment_of_every_counter_is_seen() -> None:
    """`increase` needs a sample before it: a zero, or a rule that also sees new series."""
    for rule in RULES:
        for counter in re.findall(r"increase\((\w+)", rule["expr"]):
            assert counter in SHOWN_AT_ONCE or re.search(rf"unless {counter}\S* offset", rule["expr"]), rule


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_is_complete(rule: dict[str, object]) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert str(rule["alert"]).startswith("Portico")
    assert names(str(rule["expr"]))
    assert "summary" in rule["annotations"]  # type: ignore[operator]
    assert rule["labels"] in ({"severity": "critical"}, {"severity": "warning"})
