"""Access tokens.

Credentials come from the key file of the connection, from `GOOGLE_APPLICATION_CREDENTIALS`, from `gcloud auth
application-default login`, or from the machine's metadata server: the first that exists. Files are read again for each
token, so that a changed key needs no restart.
"""

import asyncio
import json
import os
import re
import time
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path as File
from typing import Any

import aiohttp
import msgspec
import structlog

from portico.model.errors import PorticoError, ProviderRefused
from portico.providers.gcs.errors import FAILURES, ServiceError, translated
from portico.providers.gcs.responses import decode, read_error
from portico.providers.gcs.service import Backoff
from portico.providers.wire.responses import malformed_response
from portico.providers.wire.transport import CONNECT_SECONDS, MAX_RESPONSE_BYTES

READ_SECONDS = 10.0
_TOKEN_URI = "https://oauth2.googleapis.com/token"  # noqa: S105  (no password)
_PRINCIPAL = re.compile(r"/([^/]+):generateAccessToken$")


class CredentialsRejected(Exception):
    """The token endpoint refused the credentials; its message is the argument."""


def obtain_token(data: dict[str, Any], scope: str) -> tuple[str, float]:
    """A new token for the content of a credentials file, and its lifetime in seconds.

    Raises `CredentialsRejected`, errors of `FAILURES`, or anything for malformed data: google-auth has no common base
    class for that.
    """
    from google.auth.exceptions import OAuthError, RefreshError, TransportError
    from google.auth.transport.requests import Request
    from requests.exceptions import ReadTimeout

    credentials = _load(data, scope)
    try:
        with _bounded_session() as session:
            credentials.refresh(Request(session))
    except (RefreshError, OAuthError) as error:
        raise CredentialsRejected(" ".join(map(str, error.args))) from None
    except TransportError as error:
        if isinstance(error.__cause__, ReadTimeout):
            raise TimeoutError from None
        raise aiohttp.ClientConnectionError("google-auth found no connection") from None
    left = credentials.expiry.replace(tzinfo=UTC) - datetime.now(UTC)
    return credentials.token, left.total_seconds()


def _load(data: dict[str, Any], scope: str) -> Any:
    from google.auth import aws, external_account_authorized_user, identity_pool, impersonated_credentials, pluggable
    from google.oauth2 import credentials, service_account

    match data["type"]:
        case "service_account":
            return service_account.Credentials.from_service_account_info(data, scopes=[scope])
        case "authorized_user":
            return credentials.Credentials(
                None,
                refresh_token=data["refresh_token"],
                client_id=data["client_id"],
                client_secret=data["client_secret"],
                token_uri=data.get("token_uri", _TOKEN_URI),
            )
        case "impersonated_service_account":
            url = data["service_account_impersonation_url"]
            principal = _PRINCIPAL.search(url)
            if principal is None:
                raise ValueError("service_account_impersonation_url names no service account")
            return impersonated_credentials.Credentials(
                _load(data["source_credentials"], "https://www.googleapis.com/auth/iam"),
                principal[1],
                [scope],
                delegates=data.get("delegates"),
                iam_endpoint_override=url,
            )
        case "external_account_authorized_user":
            return external_account_authorized_user.Credentials.from_info(data)
    source = data["credential_source"]
    if "environment_id" in source:
        return aws.Credentials.from_info(data, scopes=[scope])
    if "executable" in source:
        return pluggable.Credentials.from_info(data, scopes=[scope])
    return identity_pool.Credentials.from_info(data, scopes=[scope])


def _broken_off() -> aiohttp.ClientConnectionError:
    return aiohttp.ClientConnectionError("the response to a token request broke off")


def _bounded_session() -> Any:
    """A session of `requests` with the limits of `transport`: no redirects, bounded responses, timeouts."""
    import requests
    import urllib3

    class Session(requests.Session):
        def request(self, *arguments: Any, **options: Any) -> requests.Response:
            options |= {"allow_redirects": False, "stream": True, "timeout": (CONNECT_SECONDS, READ_SECONDS)}
            response = super().request(*arguments, **options)
            with response:
                if response.is_redirect:
                    raise malformed_response("a redirect of a token request, which is not followed")
                try:
                    content = response.raw.read(MAX_RESPONSE_BYTES + 1)
                except urllib3.exceptions.ReadTimeoutError:
                    raise TimeoutError from None
                except (urllib3.exceptions.HTTPError, OSError):
                    raise _broken_off() from None
                if response.raw.length_remaining and len(content) <= MAX_RESPONSE_BYTES:
                    raise _broken_off()
            if len(content) > MAX_RESPONSE_BYTES:
                raise malformed_response("an endless response to a token request")
            error = ServiceError(response.status_code, read_error(content))
            if error.temporary:  # before google-auth, which would sleep in this thread, retries it
                raise error
            response.raw = BytesIO(content)
            return response

    session = Session()
    session.headers["Accept-Encoding"] = "identity"
    return session


SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_RENEW_BEFORE = 300
"""How long before it expires a token is renewed, in seconds."""
_MIN_VALIDITY = 30
"""How long a token must still be valid to be used if it cannot be renewed, in seconds."""

_TYPES = frozenset(
    {
        *("service_account", "authorized_user", "external_account", "impersonated_service_account"),
        "external_account_authorized_user",
    }
)
_NO_CREDENTIALS = (
    "Outside Google Cloud, set the option service-account-file or the variable "
    "GOOGLE_APPLICATION_CREDENTIALS, or log in with gcloud; for a public bucket, set anonymous=true"
)

log = structlog.get_logger()


class AccessTokens:
    """The current access token, shared by all requests and renewed before it expires."""

    def __init__(self, key_file: str | None) -> None:
        self._key_file = key_file
        self._token: str | None = None
        self._renew_at = 0.0
        self._expires_at = 0.0
        self._renewal = asyncio.Lock()

    async def token(self, session: aiohttp.ClientSession) -> str | None:
        if self._due():
            async with self._renewal:
                if self._due():
                    await self._renew(session)
        return self._token

    def discard(self, token: str) -> None:
        if token == self._token:
            self._token = None

    def _due(self) -> bool:
        return self._token is None or _now() >= self._renew_at

    async def _renew(self, session: aiohttp.ClientSession) -> None:
        asked = _now()
        try:
            self._token, lifetime = await _obtain(self._key_file, session)
        except PorticoError as error:
            if self._token is None or self._expires_at - asked < _MIN_VALIDITY:
                raise
            log.warning("token-not-renewed", provider="gcs", why=error.cause)
            self._renew_at = asked + _MIN_VALIDITY / 2
            return
        self._expires_at = asked + lifetime
        self._renew_at = asked + max(lifetime - _RENEW_BEFORE, lifetime / 2)


async def _obtain(key_file: str | None, session: aiohttp.ClientSession) -> tuple[str, float]:
    origin, data = await asyncio.to_thread(_read_credentials, key_file)
    backoff = Backoff()
    with translated("token"):
        while True:
            try:
                if data:
                    return await asyncio.to_thread(obtain_token, data, SCOPE)
                return await _ask_metadata_server(session)
            except CredentialsRejected as error:
                raise _refused(f"{origin}: {_reason(str(error))}") from None
            except FAILURES as error:
                if not data and isinstance(error, aiohttp.ClientConnectionError):
                    raise _refused(f"{origin}: it can't be reached. {_NO_CREDENTIALS}") from None
                await backoff.after(error)
            except PorticoError:
                raise
            except Exception as error:
                # google-auth has no common base class for malformed keys and missing fields.
                raise _refused(f"{origin} can't be used ({type(error).__name__})") from None


class _MetadataToken(msgspec.Struct):
    access_token: str
    expires_in: float


async def _ask_metadata_server(session: aiohttp.ClientSession) -> tuple[str, float]:
    host = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    async with session.get(
        f"http://{host}/computeMetadata/v1/instance/service-accounts/default/token",
        headers={"Metadata-Flavor": "Google"},
        timeout=aiohttp.ClientTimeout(READ_SECONDS),
        allow_redirects=False,
    ) as response:
        body = await response.read()
    if response.status != 200:
        error = ServiceError(response.status, read_error(body))
        if error.temporary:
            raise error
        raise CredentialsRejected(f"status {response.status}")
    token = decode(_METADATA_TOKENS, body)
    return token.access_token, token.expires_in


_METADATA_TOKENS = msgspec.json.Decoder(_MetadataToken)


def _read_credentials(key_file: str | None) -> tuple[str, dict[str, Any]]:
    """A name for the credentials, and the content of their file; no content means the metadata server."""
    if file := key_file or os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        origin = f"the credentials file {file}"
    else:
        folder = os.environ.get("CLOUDSDK_CONFIG") or File.home() / ".config" / "gcloud"
        file = str(File(folder) / "application_default_credentials.json")
        if not File(file).exists():
            return "the metadata server of this machine", {}
        origin = f"the login of gcloud in {file}"
    try:
        data = json.loads(File(file).read_bytes())
    except OSError as error:
        raise _refused(f"{origin} can't be read: {error.strerror}") from None
    except ValueError:
        raise _refused(f"{origin} is not JSON") from None
    if not isinstance(data, dict) or data.get("type") not in _TYPES:
        raise _refused(f"{origin} is not a credentials file: its type must be one of {', '.join(sorted(_TYPES))}")
    return origin, data


def _reason(message: str) -> str:
    """Why the token endpoint refused, without what else the message holds."""
    code = re.search(r"\b(invalid|unauthorized|unsupported|access)_[a-z_]{1,40}\b|status [0-9]{3}", message)
    reason = f" ({code[0]})" if code else ""
    if "iat and exp" in message:
        return f"no token{reason}: this machine's clock is wrong; set it"
    return f"no token{reason}: the key, login or identity was deleted, disabled or never valid"


def _now() -> float:
    return time.monotonic()


def _refused(cause: str) -> ProviderRefused:
    return ProviderRefused(
        "The gateway's credentials for the storage don't work. Tell your administrator.",
        cause=f"Google Cloud Storage: {cause}",
    )
