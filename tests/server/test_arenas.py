import subprocess
import sys

_ARENAS = """
import sys, threading
from portico.server.worker import share_arenas
if sys.argv[1] == "shared":
    share_arenas()
barrier = threading.Barrier(9)
def work():
    barrier.wait()
    kept = [bytes(10_000) for _ in range(100)]  # more than Python's own allocator takes
    barrier.wait()
    barrier.wait()
for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
barrier.wait()
barrier.wait()
starts = [int(line.split("-")[0], 16) for line in open("/proc/self/maps") if "rw-p" in line and "[" not in line]
print(sum(start % 2**26 == 0 for start in starts))
barrier.wait()
"""


def arenas(how: str) -> int:
    run = subprocess.run([sys.executable, "-c", _ARENAS, how], capture_output=True, text=True, check=True)
    return int(run.stdout)


def test_the_threads_of_a_worker_share_memory_that_was_freed() -> None:
    assert arenas("shared") < 3 < arenas("by default")
