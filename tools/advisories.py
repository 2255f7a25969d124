"""`make audit`: published advisories for the packages that Portico installs.

pip-audit checks the packages of an installation with all extras; npm checks the lock file of Azurite, the test server
that comes from npm. An advisory for an installed package is a failure, one for Azurite is only printed. Where an
advisory service cannot be reached, one line says so and the exit code is 0. A clean result is kept for a day.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache" / "advisories"
LOCK_FOLDER = ROOT / "tests" / "servers" / "azurite"
DISTRIBUTION = "portico-gateway"
PROBE = "https://pypi.org/pypi/pip/25.1/json"
"""An address of the kind that pip-audit requests: some mirrors only have the packages."""
DAY = 24 * 3600.0

ACCEPTED: dict[str, str] = {}
"""Advisories that do not apply to Portico, by id, with the reason."""


def installed_with_us(name: str = DISTRIBUTION, extra: str = "all") -> dict[str, str]:
    """Every package that `pip install 'portico-gateway[all]'` installs, with the version found here."""
    found: dict[str, str] = {}
    waiting = [(name, frozenset({extra}))]
    seen = set()
    while waiting:
        current, extras = waiting.pop()
        if (current, extras) in seen:
            continue
        seen.add((current, extras))
        try:
            distribution = metadata.distribution(current)
        except metadata.PackageNotFoundError:
            continue  # for another platform, or another Python
        if current != name:
            found[current] = distribution.version
        waiting += _needed(distribution, extras)
    return found


def _needed(distribution: metadata.Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for text in distribution.requires or ():
        match = re.match(r"([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?", text)
        assert match is not None
        asked = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", text)
        if asked is None or asked[1] in extras:
            wanted = frozenset(extra.strip() for extra in (match[2] or "").split(",") if extra.strip())
            yield re.sub("[-_.]+", "-", match[1]).lower(), wanted


def read_report(text: str) -> tuple[list[str], int]:
    """The advisories in a report of pip-audit, a line each, and how many packages it checked; `ValueError` if it is no report."""
    report: dict[str, Any] = json.loads(text)
    found, asked = [], 0
    for package in report["dependencies"]:
        asked += "vulns" in package
        for flaw in package.get("vulns", ()):
            if {flaw["id"], *flaw["aliases"]}.isdisjoint(ACCEPTED):
                fixed = ", ".join(flaw["fix_versions"]) or "none yet"
                found.append(f"{package['name']} {package['version']}: {flaw['id']} (fixed in: {fixed})")
    return found, asked


def check_packages() -> bool:
    packages = installed_with_us()
    pins = "".join(f"{name}=={version}\n" for name, version in sorted(packages.items()))
    if _checked_today("packages", pins):
        return True
    try:
        urllib.request.urlopen(PROBE, timeout=5).close()
    except OSError as error:
        print(f"pip-audit: no advisory service can be reached ({error}); nothing was checked.")
        return True
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "packages.txt").write_text(pins)
    options = ["--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off", "--timeout", "5"]
    command = [sys.executable, "-m", "pip_audit", "-r", str(CACHE / "packages.txt"), *options]
    output = _output([*command, "--cache-dir", str(CACHE / "http")], seconds=120)
    try:
        found, asked = read_report(output)
    except (ValueError, KeyError, TypeError):
        print("pip-audit: no advisory service answered; nothing was checked.")
        return True
    if asked < len(packages):
        print(f"pip-audit: {len(packages) - asked} of {len(packages)} packages could not be checked.")
    for line in found:
        print(f"pip-audit: {line}", file=sys.stderr)
    if not found and asked:
        _remember("packages", pins)
    return not found


def report_lock() -> None:
    """Print how many advisories there are for Azurite. It only runs during tests, on the loopback address and without
    install scripts, so they are no failure."""
    lock = (LOCK_FOLDER / "package-lock.json").read_text()
    npm = shutil.which("npm")
    if npm is None or _checked_today("lock", lock):
        return
    output = _output([npm, "audit", "--omit=dev", "--omit=optional", "--json"], seconds=20, folder=LOCK_FOLDER)
    try:
        counts = json.loads(output)["metadata"]["vulnerabilities"]
    except (ValueError, KeyError, TypeError):
        print("npm audit: no advisory service can be reached; nothing was checked.")
    else:
        if counts["total"]:
            print(
                f"npm audit: {counts['total']} advisories for the test server Azurite ({counts['critical']} critical)."
            )
    _remember("lock", lock)


def _output(command: list[str], seconds: float, folder: Path = ROOT) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, cwd=folder).stdout
    except subprocess.TimeoutExpired:
        return ""


def _checked_today(name: str, about: str) -> bool:
    stamp = CACHE / f"{name}.{hashlib.sha256(about.encode()).hexdigest()[:16]}"
    return stamp.exists() and 0 <= time.time() - stamp.stat().st_mtime < DAY


def _remember(name: str, about: str) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / f"{name}.{hashlib.sha256(about.encode()).hexdigest()[:16]}").touch()


def main() -> int:
    report_lock()
    return 0 if check_packages() else 1


if __name__ == "__main__":
    sys.exit(main())
