"""What is known of a file once it has been transferred."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from portico.client.entries import Entry


@dataclass(frozen=True, slots=True)
class Receipt:
    """One file that was transferred."""

    path: str
    """At the gateway, as it was asked for."""
    entry: Entry | None = None
    """The file at the gateway, under the name that it has there; None if the gateway did not say."""
    local: str | None = None
    """The local path, if it is a local file."""
    status: os.stat_result | None = None
    """The local file as it was when it was read, or written; None if a change right after that might not show."""
    seconds: float = 0.0
    """How long the gateway was at it."""


Received = Callable[[Receipt], None]
"""Called for each file when it is through, from whichever thread does the work."""
