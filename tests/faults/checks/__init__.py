"""Checks of the promises, one module for each kind: a line of `make soak` each, repeated as often as requested."""

from ..figures import Lines
from . import (
    aborts,
    clusters,
    confinement,
    documents,
    durability,
    floods,
    fuzz,
    hostility,
    integrity,
    listings,
    loads,
    memory,
    races,
    resumable,
    stalls,
    stops,
    tus_clients,
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
    **resumable.LINES,
    **tus_clients.LINES,
    **stalls.LINES,
    **stops.LINES,
    **loads.LINES,
    **fuzz.LINES,
    **documents.LINES,
    **hostility.LINES,
    **clusters.LINES,
}

BRIEF = (
    "abort-local",
    "kill-local",
    "kill-s3",
    "durability-local",
    "durability-trace",
    "confinement-paths",
    "confinement-disk",
    "confinement-http",
    "listing-local",
    "race",
    "flood",
    "memory-one",
    "resumable-kills",
    "resumable-memory-s3",
    "stall",
    "stop-stalled",
    "load-slow-clients",
    "fuzz-multipart",
    "fuzz-path",
    "document",
    "hostile",
)
"""What `make test` runs in short. The rest are the same promises on other services: `make soak` runs them, and the
conformance suite and the tests of each provider hold each service to them without a gateway."""
