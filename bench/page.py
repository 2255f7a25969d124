"""The page in Chromium: its first load, and a walk through a folder of 100,000 entries.

`python -m bench.page` measures this checkout; `python -m bench.page OTHER` this and another checkout, in turns.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from bench.processes import ROOT, free_port

ENTRIES = 100_000
CHROMIUM = ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"]

_FIRST_ROW = """new MutationObserver((_, observer) => {
  if (!document.querySelector(".grid .canvas > .row:not([hidden])")) return;
  window.firstRow = performance.now();
  observer.disconnect();
}).observe(document, {childList: true, subtree: true});"""

_LOADED = """() => {
  const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  return {requests: all.length, kilobytes: all.reduce((sum, each) => sum + each.transferSize, 0) / 1000, firstRow};
}"""

_WALK = """async (count) => {
  const grid = document.querySelector(".grid"), status = document.querySelector(".status");
  const frames = [], long = [];
  const observer = new PerformanceObserver((list) => long.push(...list.getEntries().map(({duration}) => duration)));
  observer.observe({type: "longtask"});
  const began = performance.now();
  for (let last = began; ;) {
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
    const isAtEnd = grid.scrollTop + grid.clientHeight >= grid.scrollHeight - 1;
    if (isAtEnd && status.textContent.replaceAll(/\\D/g, "") === String(count)) break;
    grid.scrollTop += grid.clientHeight * 10;
  }
  frames.sort((a, b) => a - b);
  const at = (share) => frames[Math.floor((frames.length - 1) * share)];
  return {seconds: (performance.now() - began) / 1000, frames: frames.length, median: at(0.5), p99: at(0.99),
    longTasks: long.length, longest: Math.max(0, ...long)};
}"""


@contextmanager
def gateway(checkout: Path, home: Path) -> Iterator[tuple[str, str]]:
    """A gateway of that checkout, and the password of its user `web`, who has the entries."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    port = free_port()
    command = [sys.executable, "-m", "portico", "--home", str(home), "serve", "--port", str(port)]
    output = home.with_suffix(".log")
    with output.open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        while "Ctrl" not in output.read_text() and "Stop it with" not in output.read_text():
            if process.poll() is not None:
                raise RuntimeError(output.read_text())
            time.sleep(0.05)
        folder = home / "files" / "web" / "many"
        folder.mkdir(parents=True)
        for number in range(ENTRIES):
            os.close(os.open(folder / f"file {number:06}.txt", os.O_CREAT | os.O_WRONLY))
        yield f"http://127.0.0.1:{port}", (home / "web-password.txt").read_text().strip()
    finally:
        process.terminate()
        process.wait()


class Visitor:
    """Signed in, with the folder of all entries open, and no cache."""

    def __init__(self, browser: Browser, url: str, password: str) -> None:
        self.page = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB").new_page()
        self.tools = self.page.context.new_cdp_session(self.page)
        self.tools.send("Network.enable")
        # Processor time of the page's thread: a busy machine changes it less than the time that passes.
        self.tools.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.tools.send("Network.setCacheDisabled", {"cacheDisabled": True})
        self.page.add_init_script(_FIRST_ROW)
        self.page.goto(f"{url}/#/many")
        self.page.get_by_label("Username").fill("web")
        self.page.get_by_label("Password").fill(password)
        self.page.keyboard.press("Enter")
        self.page.wait_for_function("() => window.firstRow")

    def load(self) -> dict[str, float]:
        self.page.reload()
        self.page.wait_for_function("() => window.firstRow")
        self.page.wait_for_load_state("networkidle")
        return {**self.page.evaluate(_LOADED), "cpuMilliseconds": self._cpu() * 1000}

    def walk(self) -> dict[str, float]:
        self.page.reload()
        self.page.wait_for_function("() => window.firstRow")
        began = self._cpu()
        figures: dict[str, Any] = self.page.evaluate(_WALK, ENTRIES)
        figures["cpuSeconds"] = self._cpu() - began
        self.tools.send("HeapProfiler.collectGarbage")
        figures["heapMegabytes"] = self.tools.send("Runtime.getHeapUsage")["usedSize"] / 1e6
        return figures

    def _cpu(self) -> float:
        """Since the page was loaded."""
        metrics = self.tools.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=__doc__)
    parser.add_argument("other", nargs="?", type=Path, help="another checkout to compare with")
    parser.add_argument("--loads", type=int, default=15)
    parser.add_argument("--walks", type=int, default=3)
    arguments = parser.parse_args()
    checkouts = [ROOT, *([arguments.other] if arguments.other else [])]
    program = next(path for path in CHROMIUM if os.path.exists(path))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=program, args=FLAGS)
        stack.callback(browser.close)
        visitors = [
            Visitor(browser, *stack.enter_context(gateway(checkout, folder / f"home{number}")))
            for number, checkout in enumerate(checkouts)
        ]
        rounds = [(Visitor.load, arguments.loads), (Visitor.walk, arguments.walks)]
        for measure, count in filter(itemgetter(1), rounds):
            results: list[list[dict[str, float]]] = [[] for _ in visitors]
            for round_number in range(count):
                # The first of a round is slower: each is the first every other time.
                turns = list(zip(visitors, results, strict=True))
                for visitor, samples in turns[:: -1 if round_number % 2 else 1]:
                    samples.append(measure(visitor))
            for checkout, samples in zip(checkouts, results, strict=True):
                medians = {name: round(statistics.median(sample[name] for sample in samples), 1) for name in samples[0]}
                print(f"{measure.__name__:5} {checkout.name}: {json.dumps(medians)}", flush=True)


if __name__ == "__main__":
    main()
