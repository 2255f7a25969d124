import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "tools" / "advisories.py"


@pytest.fixture
def advisories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = spec_from_file_location("advisories", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "CACHE", tmp_path)
    monkeypatch.setattr(module, "PROBE", FILE.as_uri())
    monkeypatch.setattr(module, "installed_with_us", lambda: {"a": "1", "b": "2"})
    return module


def report(*flaws: str) -> str:
    vulns = [{"id": flaw, "aliases": ["CVE-" + flaw], "fix_versions": ["1.1"]} for flaw in flaws]
    packages = [{"name": "a", "version": "1", "vulns": vulns}, {"name": "b", "skip_reason": "unknown"}]
    return json.dumps({"dependencies": packages, "fixes": []})


def test_installed_packages_are_checked() -> None:
    spec = spec_from_file_location("advisories", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.installed_with_us()
    assert {"starlette", "anyio", "aiobotocore", "botocore", "azure-core", "cryptography"} <= found.keys()
    assert not {"pytest", "moto", "swift", "portico-gateway"} & found.keys()


def test_a_finding_fails(advisories: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(advisories, "_output", lambda *_, **__: report("PYSEC-1"))
    assert advisories.check_packages() is False
    captured = capsys.readouterr()
    assert captured.err == "pip-audit: a 1: PYSEC-1 (fixed in: 1.1)\n"
    assert "1 of 2 packages could not be checked" in captured.out
    monkeypatch.setitem(advisories.ACCEPTED, "CVE-PYSEC-1", "it does not concern us")
    assert advisories.check_packages() is True


def test_a_clean_result_is_kept_for_a_day(advisories: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(command: list[str], **_: object) -> str:
        asked.append(command)
        return report()

    monkeypatch.setattr(advisories, "_output", answer)
    assert advisories.check_packages()
    assert advisories.check_packages()
    monkeypatch.setattr(advisories, "installed_with_us", lambda: {"a": "2"})
    assert advisories.check_packages()
    assert len(asked) == 2


@pytest.mark.parametrize("answer", ["", "no report", "{}", "[]"])
def test_an_unreachable_service_is_reported_and_not_kept(
    advisories: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str
) -> None:
    monkeypatch.setattr(advisories, "_output", lambda *_, **__: answer)
    assert advisories.check_packages()
    monkeypatch.setattr(advisories, "PROBE", "http://127.0.0.1:1/")
    assert advisories.check_packages()
    assert capsys.readouterr().out.count("nothing was checked") == 2


def test_a_command_that_hangs_is_no_answer(advisories: Any) -> None:
    assert advisories._output([sys.executable, "-c", "import time; time.sleep(9)"], seconds=0.2) == ""
