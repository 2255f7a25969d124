"""`make bench`: every group, or those that are named, in one run; a table, and `bench/results.json`."""

import argparse
import importlib
import os
import platform
import signal
import sys
import time

from bench import operations, sftpgo
from bench.processes import ROOT, Process
from bench.table import BUDGET, Line, render, save
from bench.workspace import Workspace, say

GROUPS = {
    "listing": 80,
    "objects": 50,
    "uploads": 110,
    "puts": 40,
    "transfers": 150,
    "changes": 60,
    "journal": 180,
    "downloads": 40,
    "logins": 12,
    "memory": 60,
    "growth": 90,
    "commands": 20,
    "operations": 240,
    "distance": 300,
    "sftpgo": 540,
    "outside": 150,
}
"""And the seconds after which a group makes no more than one round of each line."""

BY_NAME_ONLY = {"outside"}
"""What it measures is in another group, too."""


def main() -> int:
    names = {**sftpgo.LINES, **operations.LINES}
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "groups",
        nargs="*",
        metavar="GROUP",
        help=f"some of: {', '.join(GROUPS)} (default: all but {', '.join(BY_NAME_ONLY)})",
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    only = parser.add_argument_group("only for the groups sftpgo and operations")
    only.add_argument("--lines", metavar="NAMES", help=f"some of: {', '.join(names)}; separated by commas")
    only.add_argument("--rounds", type=int, help="how many of each line (default: 5)")
    only.add_argument("--request-log", action="store_true", help="with the request log of both sides on (sftpgo)")
    arguments = parser.parse_args()
    chosen = frozenset(filter(None, (arguments.lines or "").split(",")))
    if wrong := chosen - names.keys():
        parser.error(f"there is no line {', '.join(sorted(wrong))}; there are {', '.join(names)}")
    some = {"rounds": arguments.rounds, "lines": chosen}
    choices = {"sftpgo": {**some, "request_log": arguments.request_log}, "operations": some}
    if unknown := set(arguments.groups) - GROUPS.keys():
        parser.error(f"there is no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers are stopped then, too
    began = time.monotonic()
    lines: list[Line] = []
    failures: list[str] = []
    work = Workspace()
    try:
        for name in arguments.groups or [name for name in GROUPS if name not in BY_NAME_ONLY]:
            started = time.monotonic()
            BUDGET.start(GROUPS[name])
            try:
                group = importlib.import_module(f"bench.{name}")
                # One by one, if it is a generator: what was measured before a failure is kept.
                lines.extend(group.measure(work, arguments.quick, **choices.get(name, {})))
            except Exception as error:  # the other groups are still worth having
                failures.append(f"{name}: {type(error).__name__}: {error}")
                say(f"{name} failed: {error}")
            finally:
                Process.stop_all()
            say(f"{name} took {time.monotonic() - started:.0f} s")
        facts = {
            "moment": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
            "uploads_land_on": work.place,
            "seconds": round(time.monotonic() - began),
            "failures": failures,
        }
    finally:
        work.close()
    print(f"{facts['machine']}; uploads land on {work.place}; {facts['seconds']} s in all.")
    print(render(lines))
    for failure in failures:
        print(f"FAILED {failure}")
    save(lines, facts, ROOT / "bench" / "results.json")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
