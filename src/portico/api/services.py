"""What the endpoints work with; put together in `portico.app`."""

from collections.abc import Callable

import msgspec

from portico.api.assets import WebPage
from portico.operations import Gateway


class Services(msgspec.Struct, frozen=True):
    gateway: Gateway
    page: Callable[[], WebPage]
    """Made when it is first asked for."""
    secure_cookies: bool
    """Whether browsers reach the gateway over TLS only."""
    max_files: int
    """Files per upload."""
    max_file_size: int
    """Bytes; 0 is no limit."""
    public_url: str
    """The address by which clients reach the gateway, without a slash at the end; empty if it is not known."""
