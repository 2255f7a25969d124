"""What the endpoints work with; put together in `portico.app`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request

from portico.accounts.signin import SignIn
from portico.accounts.tickets import Tickets
from portico.accounts.tokens import Tokens
from portico.api.assets import Page
from portico.api.long_work import LongWork
from portico.api.pace import Pace
from portico.api.queues import Queues
from portico.audit import NoAudit
from portico.drives import Drives
from portico.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Services:
    client_id: str
    client_secret: str
    secure_cookies: bool
    """Whether browsers reach the gateway by TLS only."""
    page: Page
    sign_in: SignIn
    tokens: Tokens
    tickets: Tickets
    drives: Drives
    queues: Queues
    long_work: LongWork
    pace: Pace
    audit: NoAudit
    metrics: Metrics
    ready: Callable[[], Awaitable[None]]
    """Raises if the gateway cannot serve."""
    max_file_size: int
    """Bytes; 0 is no limit."""
    max_files: int


def name_action(request: Request, action: str) -> None:
    """Say what the request turned out to ask for, by which it is counted."""
    request.scope["state"]["action"] = action


def services_of(request: Request) -> Services:
    services: Services = request.scope["state"]["services"]
    return services
