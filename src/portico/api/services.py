"""What the endpoints work with; put together in `portico.app`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request

from portico.accounts.signin import SignIn
from portico.accounts.tickets import Tickets
from portico.accounts.tokens import Tokens
from portico.drives import Drives


@dataclass(frozen=True, slots=True)
class Services:
    client_id: str
    client_secret: str
    sign_in: SignIn
    tokens: Tokens
    tickets: Tickets
    drives: Drives
    ready: Callable[[], Awaitable[None]]
    """Raises if the gateway cannot serve."""
    max_file_size: int
    """Bytes; 0 is no limit."""
    max_files: int


def services_of(request: Request) -> Services:
    services: Services = request.scope["state"]["services"]
    return services
