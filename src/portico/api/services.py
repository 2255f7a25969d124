"""What the endpoints work with; put together in `portico.server.application`."""

import msgspec

from portico.api.assets import LazyPage
from portico.operations.gateway import Gateway


class Services(msgspec.Struct, frozen=True):
    gateway: Gateway
    page: LazyPage
    secure_cookies: bool
    """Whether browsers reach the gateway over TLS only."""
    max_files: int
    """Files per upload."""
    max_file_size: int
    """Bytes; 0 is no limit."""
    shows_storage: bool
    """Whether users see which connection holds their files."""
    public_url: str
    """The address by which clients reach the gateway, without a slash at the end; empty if it is not known."""
