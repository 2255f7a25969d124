"""One module for each kind of promise; each line tries one of them as often as it is told and says what it found."""

from ..figures import Lines
from . import (
    aborts,
    confinement,
    documents,
    durability,
    floods,
    fuzz,
    integrity,
    listings,
    loads,
    memory,
    races,
    stalls,
    stops,
)

LINES: Lines = {
    **aborts.LINES,
    **durability.LINES,
    **integrity.LINES,
    **confinement.LINES,
    **listings.LINES,
    **races.LINES,
    **floods.LINES,
    **memory.LINES,
    **stalls.LINES,
    **stops.LINES,
    **loads.LINES,
    **fuzz.LINES,
    **documents.LINES,
}

ONLY_LONG = frozenset(
    {
        "abort-s3",
        "durability-s3",
        "integrity-s3",
        "kill-azure-blob",
        "large-s3",
        "listing-azure-blob",
        "memory-azure-blob",
        "stop-azure-blob",
    }
)
"""Lines that `make test` leaves to `make soak`: there each promise is tried on `local` and on one service."""
