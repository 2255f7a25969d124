"""A page's token: the service's own marker, unchanged, and behind it which folder came last.

The service may begin a page with the folder that ended the one before. What is remembered of that folder travels with
the cursor, so that every worker and node drops it. It is a short hash: the marker may already hold the whole name, and a
cursor must fit into an address.
"""

import re
from base64 import urlsafe_b64encode
from hashlib import blake2b

_SUFFIX = re.compile(r"(.*)~([A-Za-z0-9_-]{11})?", re.DOTALL)


def join(marker: str, folder: str) -> str:
    """`folder` is what `hash_of` gives, or nothing. The service's markers hold no `~`, so most are their own tokens."""
    return f"{marker}~{folder}" if folder or "~" in marker else marker


def split(token: str) -> tuple[str, str]:
    """The marker and the folder's hash; a token that was issued without one is all marker."""
    match = _SUFFIX.fullmatch(token)
    return (match[1], match[2] or "") if match else (token, "")


def hash_of(folder: str) -> str:
    digest = blake2b(folder.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return urlsafe_b64encode(digest).decode().rstrip("=")
