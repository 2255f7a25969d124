"""What the kit sets exists, and the gateway accepts it."""

import re
from pathlib import Path

import pytest

from portico.settings.settings import KEYS, load
from portico.settings.sources import NOT_SETTINGS, variable

from .files import CHART, DEPLOY, parsed

FILES = sorted(file for file in DEPLOY.rglob("*") if file.is_file() and file.suffix != ".pyc")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(DEPLOY)))
def test_variables_are_known(file: Path) -> None:
    names = {variable(key) for key in KEYS}
    used = set(re.findall(r"\bPORTICO_[A-Z_]+[A-Z]\b", file.read_text()))
    assert not {name for name in used if name.removesuffix("_FILE") not in names and not NOT_SETTINGS.fullmatch(name)}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(DEPLOY)))
def test_settings_in_comments_are_known(file: Path) -> None:
    used = set(re.findall(r"\b((?:server|database|security|audit|log|metrics)\.[a-z-]+)=", file.read_text()))
    used -= {"security.cfg", "server.py"}
    assert used <= set(KEYS)


@pytest.mark.parametrize(
    ("file", "service"),
    [("compose.yaml", "portico"), *(("compose.cluster.yaml", name) for name in ("setup", "node1", "node2"))],
)
def test_the_gateway_accepts_the_environment(file: str, service: str, tmp_path: Path) -> None:
    given = dict(parsed(file)["services"][service]["environment"])
    given["PORTICO_SERVER_PUBLIC_URL"] = "http://localhost:8080"  # after the substitution by Compose
    if "PORTICO_DATABASE_URL_FILE" in given:
        (tmp_path / "url").write_text("postgresql://portico:x@postgres/portico")
        given["PORTICO_DATABASE_URL_FILE"] = str(tmp_path / "url")
    else:
        given |= {"PORTICO_SECURITY_CLIENT_ID": "id", "PORTICO_SECURITY_CLIENT_SECRET": "secret"}
    settings = load(tmp_path, given)
    assert settings.tls_enabled or settings.behind_proxy or service == "setup"


def test_settings_of_the_chart_are_keys() -> None:
    assert set(parsed("helm/portico/values.yaml")["settings"]) <= set(KEYS)
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    assert '{{ $key | upper | replace "." "_" | replace "-" "_" }}' in helpers, "as `variable` does"
