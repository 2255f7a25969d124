"""`POST /backend/login`: tokens for a password or a refresh token (RFC 6749), with that standard's errors."""

import binascii
import hmac
from base64 import b64decode
from contextlib import ExitStack
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from portico.accounts.devices import LIFETIME
from portico.accounts.names import name_key
from portico.accounts.signin import SignedIn, WrongPassword
from portico.accounts.tokens import TokenPair
from portico.api.auditing import Change, line_of
from portico.api.bodies import JsonResponse, TokenBody
from portico.api.incoming import read_small
from portico.api.problems import KINDS, headers_of, log_cause
from portico.api.services import Services, name_action, services_of
from portico.api.session import single_header
from portico.audit import DONE
from portico.errors import (
    ClientTimeout,
    InvalidRequest,
    NotSignedIn,
    PorticoError,
    TooManyRequests,
    Unavailable,
)

DEVICE_COOKIE = "portico-device"

_LARGEST_FORM = 16 * 1024
_LONGEST_NAME = 256


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
    name_action(request, "sign-in")
    try:
        return await _sign_in(request)
    except _Refused as refused:
        return _refusal(refused.status, refused.body, refused.headers)
    except InvalidRequest as error:
        return _refusal(400, OAuthError("invalid_request", error.detail), {})
    except ClientTimeout as error:
        return _refusal(KINDS[error.code].status, OAuthError("invalid_request", error.detail), {})
    except (WrongPassword, NotSignedIn) as error:
        return _refusal(400, OAuthError("invalid_grant", error.detail), {})
    except (TooManyRequests, Unavailable) as error:
        log_cause(error)
        status = KINDS[error.code].status
        word = "slow_down" if isinstance(error, TooManyRequests) else "temporarily_unavailable"
        return _refusal(status, OAuthError(word, error.detail), headers_of(error, status))


async def _sign_in(request: Request) -> Response:
    services = services_of(request)
    _check_client(request, services)
    form = await _form(request)
    grant = _field(form, "grant_type")
    if grant == "password":
        username, password = _field(form, "username"), _field(form, "password")
        if len(username) > _LONGEST_NAME or "\0" in username:
            raise InvalidRequest("The field 'username' is not a user name.")
        if name_key(username):  # what nobody can be called may well be a password in the wrong field
            request.scope["state"]["user"] = username  # for the logs
        signed_in = await _with_password(request, services, username, password)
        return _keeping(_granted(signed_in.tokens), signed_in.device, secure=services.secure_cookies)
    if grant == "refresh_token":
        return _granted(await _with_refresh_token(request, services, _field(form, "refresh_token")))
    raise _Refused(400, "unsupported_grant_type", "The grant_type is 'password' or 'refresh_token'.")


def _granted(pair: TokenPair) -> Response:
    return JsonResponse(
        TokenBody(pair.access_token, "Bearer", pair.expires_in, pair.refresh_token, pair.scope)
    )


def _keeping(response: Response, device: str, *, secure: bool) -> Response:
    """Have a browser remember that it has signed in; the cookie goes nowhere but to the next sign-in."""
    response.set_cookie(
        DEVICE_COOKIE,
        device,
        max_age=int(LIFETIME.total_seconds()),
        path="/backend/login",
        secure=secure,
        httponly=True,
        samesite="strict",
    )
    return response


async def _with_password(request: Request, services: Services, username: str, password: str) -> SignedIn:
    assert request.client is not None
    outcome = "interrupted"
    try:
        device = request.cookies.get(DEVICE_COOKIE, "")
        signed_in = await services.sign_in.with_password(username, password, request.client.host, device)
        outcome = DONE
        return signed_in
    except PorticoError as error:
        outcome = error.code
        raise
    finally:
        try:
            # Who was turned away unheard has no line: else a flood could fill the disk with them.
            if outcome in (DONE, WrongPassword.code):
                services.audit.record(line_of(request, "sign-in", outcome=outcome))
        except Unavailable as error:
            outcome = error.code
            raise
        finally:
            services.metrics.sign_ins.add((outcome,))


async def _with_refresh_token(request: Request, services: Services, token: str) -> TokenPair:
    name_action(request, "refresh")
    state = request.scope["state"]
    with ExitStack() as stack:

        def begin(user: str) -> None:
            """Before the token is used up, and not before it is known whose it is: a stranger writes no line."""
            state["user"] = user
            change = Change(request, "refresh")
            change.begin()
            stack.enter_context(change)

        try:
            return await services.tokens.refresh(token, begin=begin)
        except NotSignedIn:
            if "user" not in state:
                await services.sign_in.refresh_failed(request.scope["client"][0])
            raise


def _check_client(request: Request, services: Services) -> None:
    header = single_header(request, "Authorization")
    client_id, client_secret = _basic(header or "")
    known = hmac.compare_digest(client_id, services.client_id.encode())
    if not (hmac.compare_digest(client_secret, services.client_secret.encode()) and known):
        raise _Refused(
            401,
            "invalid_client",
            "Send client id and client secret as HTTP Basic credentials; the administrator has them.",
            {"WWW-Authenticate": 'Basic realm="portico", charset="UTF-8"'},
        )


def _basic(header: str) -> tuple[bytes, bytes]:
    """What stands before and behind the colon; nothing if the header is not of that form."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return b"", b""
    try:
        client_id, colon, client_secret = b64decode(encoded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return b"", b""
    return (client_id, client_secret) if colon else (b"", b"")


async def _form(request: Request) -> dict[str, str]:
    if request.scope["query_string"]:
        raise InvalidRequest("Send the fields in the body, not in the address.")
    kind = (single_header(request, "Content-Type") or "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise InvalidRequest("Send the fields as application/x-www-form-urlencoded.")
    body = await read_small(request, _LARGEST_FORM)
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=16)
    except ValueError:
        raise InvalidRequest("The form is malformed; percent-encode its values as UTF-8.") from None
    form = dict(pairs)
    if len(form) < len(pairs):
        raise InvalidRequest("A field stands twice; send each once.")
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
