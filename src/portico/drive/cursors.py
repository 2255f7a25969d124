"""Cursors: a provider's own continuation token, sealed to the folder that it came from.

The token travels unchanged, followed by a short keyed tag. So a cursor that was altered, forged or used on
another folder is recognised without a call to the provider, on every node that holds the same secret key.
"""

import hmac
from base64 import urlsafe_b64encode

from portico.model.errors import InvalidCursor

_TAG_LENGTH = 22  # 128 bits in base64url
_MAX_LENGTH = 16 * 1024


class CursorSeal:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def close(self, token: str, scope: str) -> str:
        """The cursor to hand out for `token`; `scope` identifies the folder globally."""
        return token + self._tag(token, scope)

    def open(self, cursor: str, scope: str) -> str:
        """The token inside `cursor`; `InvalidCursor` unless it was closed for this very `scope`."""
        token, tag = cursor[:-_TAG_LENGTH], cursor[-_TAG_LENGTH:]
        if len(cursor) <= _MAX_LENGTH and token and tag.isascii() and hmac.compare_digest(tag, self._tag(token, scope)):
            return token
        raise InvalidCursor(
            "The cursor belongs to another folder or was changed. Start again without a cursor, "
            "and percent-encode nextCursor in the query."
        )

    def _tag(self, token: str, scope: str) -> str:
        message = scope.encode() + b"\0" + token.encode("utf-8", "surrogatepass")
        digest = hmac.digest(self._key, message, "sha256")
        return urlsafe_b64encode(digest)[:_TAG_LENGTH].decode()
