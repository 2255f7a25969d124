"""Sign-in (RFC 6749, with that standard's errors), sign-out, and who is signed in."""

import hmac
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from portico.api.problems import headers_of, log_cause, status_of
from portico.api.request_body import read_small
from portico.api.requests import actor_of, basic_credentials, context_of, services_of, single_header
from portico.api.schemas import JsonResponse, KeyInUseBody, SessionBody, TokenBody, mount_bodies
from portico.api.services import Services
from portico.model import timestamps
from portico.model.errors import (
    ClientTimeout,
    InvalidRequest,
    NotSignedIn,
    PorticoError,
    TooManyRequests,
    Unavailable,
    WrongPassword,
)
from portico.model.rights import format_rights
from portico.operations.actors.actor import DEVICE_LIFETIME, TokenPair
from portico.operations.actors.idempotency import KEPT

DEVICE_COOKIE = "portico-device"
SESSION_COOKIE = "portico-session"
"""Holds the refresh token of a browser that asked for it: no script can read it, and it is sent to the sign-in only."""
SESSION_HEADER = "X-Portico-Session"
"""`cookie` asks for that. Another site's page cannot send this header."""

_OAUTH_ERRORS: dict[type[PorticoError], str] = {
    InvalidRequest: "invalid_request",
    ClientTimeout: "invalid_request",
    WrongPassword: "invalid_grant",
    NotSignedIn: "invalid_grant",
    TooManyRequests: "slow_down",
    Unavailable: "temporarily_unavailable",
}
_MAX_FORM_SIZE = 16 * 1024
_MAX_NAME_LENGTH = 256


class OAuthError(msgspec.Struct):
    error: str
    error_description: str


class _Refused(Exception):
    def __init__(self, status: int, error: str, description: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(description)
        self.status = status
        self.error = error
        self.headers = headers or {}


async def login(request: Request) -> Response:
    context_of(request).action = "sign-in"
    try:
        return await _sign_in(request)
    except _Refused as refused:
        return _refusal(request, refused.error, refused.status, refused.error, str(refused), refused.headers)
    except tuple(_OAUTH_ERRORS) as error:
        return _refusal_of(request, error)


async def _sign_in(request: Request) -> Response:
    services = services_of(request)
    _check_client(request, services)
    form = await _form(request)
    grant = _field(form, "grant_type")
    context = context_of(request)
    context.agent = request.headers.get("User-Agent", "")
    in_cookie = _wants_cookie(request, services)
    if grant == "password":
        username, password = _field(form, "username"), _field(form, "password")
        if len(username) > _MAX_NAME_LENGTH or "\0" in username:
            raise InvalidRequest("The field 'username' is not a valid user name; check it.")
        device = request.cookies.get(DEVICE_COOKIE, "")
        signed_in = await services.gateway.authentication.sign_in(context, username, password, device)
        response = _granted(signed_in.tokens, services, in_cookie=in_cookie)
        # Lets a browser remember that it has signed in.
        return _with_cookie(response, services, DEVICE_COOKIE, signed_in.device, int(DEVICE_LIFETIME.total_seconds()))
    if grant == "refresh_token":
        context.action = "refresh"
        token = request.cookies.get(SESSION_COOKIE, "") if in_cookie else _field(form, "refresh_token")
        if in_cookie and "refresh_token" in form:
            raise InvalidRequest("The refresh token is in both the cookie and the form; send it in the cookie only.")
        try:
            if not token:  # a browser that is not signed in has guessed nothing
                raise NotSignedIn("This browser has no session. Sign in.")
            tokens = await services.gateway.authentication.refresh(context, token)
        except NotSignedIn as error:
            return _without_session(_refusal_of(request, error), services) if in_cookie else _refusal_of(request, error)
        return _granted(tokens, services, in_cookie=in_cookie)
    raise _Refused(400, "unsupported_grant_type", "The grant_type must be 'password' or 'refresh_token'.")


async def logout(request: Request) -> Response:
    context_of(request).action = "sign-out"
    actor = await actor_of(request)
    services = services_of(request)
    await services.gateway.authentication.sign_out(actor)
    response = Response(status_code=204, headers={"Cache-Control": "no-store"})
    # A program that signs out has no cookie, and a browser may have that of another session.
    return _without_session(response, services) if SESSION_HEADER in request.headers else response


async def show_session(request: Request) -> Response:
    context_of(request).action = "session"
    actor = await actor_of(request)
    if actor.guest is not None:  # a guest has no session
        actor.require_session()
    mounts = mount_bodies(actor.user.reach, shows_storage=services_of(request).shows_storage)
    body = SessionBody(actor.user.name, format_rights(actor.user.rights).split(), mounts)
    if actor.session is not None:
        body.expires_at = timestamps.from_datetime(actor.session.expires_at)
    if (key := actor.context.key) is not None:
        body.key = KeyInUseBody(key.id, key.name, key.folder)
    # So that a client knows how long it can rely on keys.
    return JsonResponse(body, 200, {"Idempotency-Key-Lifetime": f"{KEPT.total_seconds():.0f}"})


def _wants_cookie(request: Request, services: Services) -> bool:
    """Whether the page of this gateway asks for, or sends, its refresh token in a cookie.

    A browser says where a request comes from. Whatever does not come from this origin never gets as far as the cookie:
    not a page of another site, nor one of another host of the same site. A program has no use for the cookie.
    """
    header = single_header(request, SESSION_HEADER)
    if header is None:
        return False
    if header != "cookie":
        raise InvalidRequest(f"The header {SESSION_HEADER} is not valid; its only value is 'cookie'.")
    site = single_header(request, "Sec-Fetch-Site")
    if not (site == "same-origin" if site else _is_own_origin(request, services)):
        raise _Refused(
            403,
            "access_denied",
            f"Only this gateway's own page can keep its session in a cookie; sign in without {SESSION_HEADER}.",
        )
    return True


def _is_own_origin(request: Request, services: Services) -> bool:
    """For browsers that do not say more, such as over plain HTTP. A proxy may have changed the host."""
    origin, host = single_header(request, "Origin"), request.headers.get("Host")
    return bool(origin) and origin in (f"http://{host}", f"https://{host}", services.public_url)


def _granted(pair: TokenPair, services: Services, *, in_cookie: bool) -> Response:
    body = TokenBody(pair.access_token, "Bearer", pair.expires_in, pair.refresh_token, pair.scope)
    if not in_cookie:
        return JsonResponse(body)
    body.refresh_token, body.username = msgspec.UNSET, pair.user.name
    return _with_cookie(JsonResponse(body), services, SESSION_COOKIE, pair.refresh_token, pair.refresh_expires_in)


def _without_session(response: Response, services: Services) -> Response:
    return _with_cookie(response, services, SESSION_COOKIE, "", 0)


def _with_cookie(response: Response, services: Services, name: str, value: str, lifetime: int) -> Response:
    """The cookie is sent to the sign-in only."""
    secure = services.secure_cookies
    response.set_cookie(
        name, value, max_age=lifetime, path="/backend/login", secure=secure, httponly=True, samesite="strict"
    )
    return response


def _check_client(request: Request, services: Services) -> None:
    header = single_header(request, "Authorization")
    client_id, client_secret = basic_credentials(header or "")
    known = hmac.compare_digest(client_id, services.gateway.client_id.encode())
    if not (hmac.compare_digest(client_secret, services.gateway.client_secret.encode()) and known):
        raise _Refused(
            401,
            "invalid_client",
            "The client credentials are missing or wrong. Send the client id and secret with HTTP "
            "Basic; your administrator has them.",
            {"WWW-Authenticate": 'Basic realm="portico", charset="UTF-8"'},
        )


async def _form(request: Request) -> dict[str, str]:
    if request.scope["query_string"]:
        raise InvalidRequest("The fields are in the URL; send them in the body.")
    kind = (single_header(request, "Content-Type") or "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise InvalidRequest("The content type isn't supported; send the fields as application/x-www-form-urlencoded.")
    body = await read_small(request, _MAX_FORM_SIZE)
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=16)
    except ValueError:
        raise InvalidRequest("The form is malformed; percent-encode its values as UTF-8.") from None
    form = dict(pairs)
    if len(form) < len(pairs):
        raise InvalidRequest("A field appears twice; send each field once.")
    if "client_id" in form or "client_secret" in form:
        raise InvalidRequest("The form contains client credentials; send them in the Authorization header only.")
    return form


def _field(form: dict[str, str], name: str) -> str:
    if not form.get(name):
        raise InvalidRequest(f"The field '{name}' is missing.")
    return form[name]


def _refusal_of(request: Request, error: PorticoError) -> Response:
    word = next(word for kind, word in _OAUTH_ERRORS.items() if isinstance(error, kind))
    status = 400 if word == "invalid_grant" else status_of(error)
    log_cause(error)
    return _refusal(request, error.code, status, word, error.detail, headers_of(error, status))


def _refusal(
    request: Request, code: str, status: int, error: str, description: str, headers: dict[str, str]
) -> Response:
    context_of(request).code = code
    response = JsonResponse(OAuthError(error, description), status)
    response.headers.update(headers)
    return response
