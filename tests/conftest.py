"""For all tests: generated cases are the same in every run, so that a red run means that something changed.

`RANDOM_CASES=1 make test` tries others.
"""

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True)
if not os.environ.get("RANDOM_CASES"):
    settings.load_profile("same")
