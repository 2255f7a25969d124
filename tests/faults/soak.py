"""`make soak`: the promises at full length, each figure beside the one that is wanted.

`python -m tests.faults.soak [--short] [--requests NUMBER] [--cases NUMBER] [NAME …]`: a name chooses every line that begins with it.
"""

import argparse
import asyncio
import logging
import re
import sys
import tempfile
import time
from pathlib import Path

from .checks import LINES
from .figures import Effort, Figure

_PROBLEM = re.compile('"level":"(warning|error)"|"status":5|Traceback')


def main(arguments: list[str]) -> int:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # the S3 server has a line for every call
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # and the trickle, for every byte that nobody takes
    parser = argparse.ArgumentParser(prog="soak", description=f"The promises at full length: {', '.join(LINES)}.")
    parser.add_argument("--short", action="store_true", help="as briefly as the tests run them")
    parser.add_argument("--requests", type=int, default=0, help="how many the lines 'steady' make")
    parser.add_argument("--cases", type=int, default=0, help="how many cases or files the lines 'rewind' have")
    parser.add_argument("wanted", nargs="*", metavar="NAME", help="every line that begins with it; all by default")
    given = parser.parse_args(arguments)
    short, wanted = given.short, given.wanted
    if unknown := [name for name in wanted if not any(line.startswith(name) for line in LINES)]:
        print(f"There is no line {', '.join(unknown)}; there are: {', '.join(LINES)}", file=sys.stderr)
        return 2
    chosen = {
        name: line for name, line in LINES.items() if not wanted or any(name.startswith(prefix) for prefix in wanted)
    }
    missed: list[tuple[str, Figure]] = []
    began = time.monotonic()
    for name, line in chosen.items():
        with tempfile.TemporaryDirectory(prefix="portico-soak-", ignore_cleanup_errors=True) as folder:
            effort = Effort(
                not short,
                Path(folder),
                say=lambda words: print(f"    … {words}", flush=True),
                requests=given.requests,
                cases=given.cases,
            )
            start = time.monotonic()
            try:
                figures: list[Figure] = asyncio.run(line(effort))
            except Exception as error:
                found = f"{type(error).__name__}: {error}"
                figures = [Figure("the line itself", "to run", found, False, cause=_last_problems(effort))]
        print(f"{name} ({time.monotonic() - start:.0f} s)", flush=True)
        for figure in figures:
            _show(figure)
        missed += [(name, figure) for figure in figures if not figure.reached]
    print(f"\n{len(chosen)} lines in {time.monotonic() - began:.0f} s; figures not reached: {len(missed)}")
    for name, figure in missed:
        print(f"  {name}: {figure.what}")
    return 1 if missed else 0


def _last_problems(effort: Effort) -> str:
    """What the gateways of a line logged as warnings or worse, or answered with 5xx; the last few lines."""
    lines = [line for file in effort.folder.rglob("output.txt") for line in file.read_text().splitlines()]
    return "\n".join([line for line in lines if _PROBLEM.search(line)][-10:])


def _show(figure: Figure) -> None:
    mark = "reached" if figure.reached else "MISSED "
    print(f"  {mark}  {figure.what}: wanted {figure.wanted}, found {figure.found}", flush=True)
    if figure.cause:
        print(f"           {figure.cause}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
