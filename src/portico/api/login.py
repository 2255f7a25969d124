"""Sign-in (RFC 6749, with that standard's errors), sign-out, and who is signed in."""

import hmac
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from portico import timestamps
from portico.api.problems import PROBLEM_TYPES, headers_of, log_cause
from portico.api.request_body import read_small
from portico.api.requests import actor_of, basic_credentials, context_of, services_of, single_header
from portico.api.schemas import JsonResponse, KeyInUseBody, SessionBody, TokenBody
from portico.api.services import Services
from portico.errors import ClientTimeout, InvalidRequest, NotSignedIn, TooManyRequests, Unavailable
from portico.operations.authentication import DEVICE_LIFETIME, TokenPair, WrongPassword
from portico.operations.idempotency import KEPT
from portico.rights import format_rights

DEVICE_COOKIE = "portico-device"

_MAX_FORM_SIZE = 16 * 1024
_MAX_NAME_LENGTH = 256


class OAuthError(msgspec.Struct):
    error: str
    error_description: str


class _Refused(Exception):
    def __init__(
        self, status: int, error: str, description: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(description)
        self.status = status
        self.body = OAuthError(error, description)
        self.headers = headers or {}


async def login(request: Request) -> Response:
    context_of(request).action = "sign-in"
    try:
        return await _sign_in(request)
    except _Refused as refused:
        return _refusal(refused.status, refused.body, refused.headers)
    except InvalidRequest as error:
        return _refusal(400, OAuthError("invalid_request", error.detail), {})
    except ClientTimeout as error:
        return _refusal(PROBLEM_TYPES[error.code].status, OAuthError("invalid_request", error.detail), {})
    except (WrongPassword, NotSignedIn) as error:
        return _refusal(400, OAuthError("invalid_grant", error.detail), {})
    except (TooManyRequests, Unavailable) as error:
        log_cause(error)
        status = PROBLEM_TYPES[error.code].status
        word = "slow_down" if isinstance(error, TooManyRequests) else "temporarily_unavailable"
        return _refusal(status, OAuthError(word, error.detail), headers_of(error, status))


async def _sign_in(request: Request) -> Response:
    services = services_of(request)
    _check_client(request, services)
    form = await _form(request)
    grant = _field(form, "grant_type")
    context = context_of(request)
    if grant == "password":
        username, password = _field(form, "username"), _field(form, "password")
        if len(username) > _MAX_NAME_LENGTH or "\0" in username:
            raise InvalidRequest("The field 'username' is not a user name.")
        device = request.cookies.get(DEVICE_COOKIE, "")
        signed_in = await services.gateway.authentication.sign_in(context, username, password, device)
        return _keeping(_granted(signed_in.tokens), signed_in.device, secure=services.secure_cookies)
    if grant == "refresh_token":
        token = _field(form, "refresh_token")
        return _granted(await services.gateway.authentication.refresh(context, token))
    raise _Refused(400, "unsupported_grant_type", "The grant_type must be 'password' or 'refresh_token'.")


async def logout(request: Request) -> Response:
    context_of(request).action = "sign-out"
    actor = await actor_of(request)
    await services_of(request).gateway.authentication.sign_out(actor)
    return Response(status_code=204, headers={"Cache-Control": "no-store"})


async def show_session(request: Request) -> Response:
    context_of(request).action = "session"
    actor = await actor_of(request)
    rights = format_rights(actor.user.rights).split()
    body = SessionBody(actor.user.name, rights)
    if actor.session is not None:
        body.expiresAt = timestamps.from_datetime(actor.session.expires_at)
    if (key := actor.context.key) is not None:
        body.key = KeyInUseBody(key.id, key.name, key.folder)
    # So that a client knows whether it can rely on keys: older gateways ignore them.
    return JsonResponse(body, 200, (b"idempotency-key-lifetime", b"%d" % KEPT.total_seconds()))


def _granted(pair: TokenPair) -> Response:
    return JsonResponse(
        TokenBody(pair.access_token, "Bearer", pair.expires_in, pair.refresh_token, pair.scope)
    )


def _keeping(response: Response, device: str, *, secure: bool) -> Response:
    """Let a browser remember that it has signed in; the cookie is sent to the next sign-in only."""
    response.set_cookie(
        DEVICE_COOKIE,
        device,
        max_age=int(DEVICE_LIFETIME.total_seconds()),
        path="/backend/login",
        secure=secure,
        httponly=True,
        samesite="strict",
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
            "Send client id and client secret as HTTP Basic credentials; the administrator has them.",
            {"WWW-Authenticate": 'Basic realm="portico", charset="UTF-8"'},
        )


async def _form(request: Request) -> dict[str, str]:
    if request.scope["query_string"]:
        raise InvalidRequest("Send the fields in the body, not in the address.")
    kind = (single_header(request, "Content-Type") or "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise InvalidRequest("Send the fields as application/x-www-form-urlencoded.")
    body = await read_small(request, _MAX_FORM_SIZE)
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=16)
    except ValueError:
        raise InvalidRequest("The form is malformed; percent-encode its values as UTF-8.") from None
    form = dict(pairs)
    if len(form) < len(pairs):
        raise InvalidRequest("A field is given twice; send each once.")
    if "client_id" in form or "client_secret" in form:
        raise InvalidRequest("Send the client's credentials in the Authorization header only.")
    return form


def _field(form: dict[str, str], name: str) -> str:
    if not form.get(name):
        raise InvalidRequest(f"The field '{name}' is missing.")
    return form[name]


def _refusal(status: int, body: OAuthError, headers: dict[str, str]) -> Response:
    response = JsonResponse(body, status)
    response.headers.update(headers)
    return response
