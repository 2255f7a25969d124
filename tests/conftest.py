"""For all tests: on CI, generated cases are the same in every run, so that a red run means that something changed."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
