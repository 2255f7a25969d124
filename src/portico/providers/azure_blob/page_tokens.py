"""Page tokens: the service's marker, followed by a hash of the last folder of the page.

The service may repeat that folder at the start of the next page. The hash travels with the cursor, so that every worker
and node can drop it. It is short because the marker may already hold the whole name, and a cursor must fit into a URL.
"""

import re
from base64 import urlsafe_b64encode
from hashlib import blake2b

_SUFFIX = re.compile(r"(.*)~([A-Za-z0-9_-]{11})?", re.DOTALL)


def join(marker: str, folder: str) -> str:
    """The token for a marker and a folder, which is a hash from `hash_of`, or empty.

    The service's markers have no `~`, so most tokens are just the marker.
    """
    return f"{marker}~{folder}" if folder or "~" in marker else marker


def split(token: str) -> tuple[str, str]:
    """The marker and the folder's hash, which may be empty."""
    match = _SUFFIX.fullmatch(token)
    return (match[1], match[2] or "") if match else (token, "")


def hash_of(folder: str) -> str:
    digest = blake2b(folder.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return urlsafe_b64encode(digest).decode().rstrip("=")
