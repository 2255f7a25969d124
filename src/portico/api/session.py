"""From a request to the Web User behind it, and to the user's drive."""

from starlette.requests import Request
from starlette.responses import Response

from portico import timestamps
from portico.accounts.tokens import Session
from portico.api.auditing import Change
from portico.api.bodies import JsonResponse, SessionBody
from portico.api.queries import names_parameter
from portico.api.services import name_action, services_of
from portico.drive import Drive
from portico.errors import InvalidRequest, NotSignedIn
from portico.rights import format_rights


def single_header(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise InvalidRequest(f"The header {name} stands twice; send it once.")
    return values[0] if values else None


async def session_of(request: Request) -> Session:
    """Who sent the bearer token of this request."""
    header = single_header(request, "Authorization")
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise NotSignedIn("Send the access token as 'Authorization: Bearer …'; /backend/login gives you one.")
    if names_parameter(request, b"access_token"):
        raise InvalidRequest(
            "An access token stands in the query beside the header; send it in the header only."
        )
    session = await services_of(request).tokens.session(token.strip())
    request.scope["state"]["user"] = session.user.name  # for the log
    return session


async def drive_of(request: Request, *, waits: bool = True) -> tuple[Session, Drive]:
    """The drive of whoever sent the bearer token; `Unavailable` if too many wait for the same storage."""
    session = await session_of(request)
    return session, await drive_for(request, session, waits=waits)


async def drive_for(request: Request, session: Session, *, waits: bool = True) -> Drive:
    services = services_of(request)
    if waits:
        services.queues.enter(request, session.user.connection)
    return await services.drives.of(session.user)


async def show_session(request: Request) -> Response:
    name_action(request, "session")
    session = await session_of(request)
    rights = format_rights(session.user.rights).split()
    return JsonResponse(SessionBody(session.user.name, rights, timestamps.from_datetime(session.expires_at)))


async def logout(request: Request) -> Response:
    name_action(request, "sign-out")
    session = await session_of(request)
    with Change(request, "sign-out") as change:
        change.begin()
        await services_of(request).tokens.end(session)
    return Response(status_code=204, headers={"Cache-Control": "no-store"})
