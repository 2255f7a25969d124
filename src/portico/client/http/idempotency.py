"""Idempotency keys: with the same one, a request that is sent again is carried out once."""

import secrets

HEADER = "Idempotency-Key"
LIFETIME_HEADER = "idempotency-key-lifetime"
"""A gateway that honours keys sends this with the session."""


def new_key() -> dict[str, str]:
    """A key as a header. It goes with all attempts of one request, and with no other request."""
    return {HEADER: f'"{secrets.token_hex(16)}"'}
