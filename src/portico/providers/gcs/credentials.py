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
from pathlib import Path as File
from typing import Any

import aiohttp
import msgspec
import structlog

from portico.errors import PorticoError, ProviderRefused
from portico.providers.gcs import google_auth
from portico.providers.gcs.errors import FAILURES, ServiceError, translated
from portico.providers.gcs.responses import decode, read_error
from portico.providers.gcs.service import Backoff

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
    "Outside of Google Cloud give the connection the option service-account-file, or set "
    "GOOGLE_APPLICATION_CREDENTIALS, or log in with gcloud; for a public bucket set anonymous=true"
)

log = structlog.get_logger()


class Anonymous:
    async def token(self, session: aiohttp.ClientSession) -> None:
        return None

    def discard(self, token: str) -> None:
        return


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
    """A new token and its lifetime in seconds."""
    origin, data = await asyncio.to_thread(_read_credentials, key_file)
    backoff = Backoff()
    with translated("token"):
        while True:
            try:
                if data:
                    return await asyncio.to_thread(google_auth.obtain_token, data, SCOPE)
                return await _ask_metadata_server(session)
            except google_auth.CredentialsRejected as error:
                raise _refused(f"{origin}: {_reason(str(error))}") from None
            except FAILURES as error:
                if not data and isinstance(error, aiohttp.ClientConnectionError):
                    raise _refused(f"{origin}: it cannot be reached. {_NO_CREDENTIALS}") from None
                await backoff.after(error)
            except PorticoError:
                raise
            except Exception as error:
                # google-auth has no common base class for malformed keys and missing fields.
                raise _refused(f"{origin} cannot be used ({type(error).__name__})") from None


class _MetadataToken(msgspec.Struct):
    access_token: str
    expires_in: float


async def _ask_metadata_server(session: aiohttp.ClientSession) -> tuple[str, float]:
    host = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    async with session.get(
        f"http://{host}/computeMetadata/v1/instance/service-accounts/default/token",
        headers={"Metadata-Flavor": "Google"},
        timeout=aiohttp.ClientTimeout(google_auth.READ_SECONDS),
        allow_redirects=False,
    ) as response:
        body = await response.read()
    if response.status != 200:
        error = ServiceError(response.status, read_error(body))
        if error.temporary:
            raise error
        raise google_auth.CredentialsRejected(f"status {response.status}")
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
        raise _refused(f"{origin} cannot be read: {error.strerror}") from None
    except ValueError:
        raise _refused(f"{origin} is not JSON") from None
    if not isinstance(data, dict) or data.get("type") not in _TYPES:
        raise _refused(f"{origin} is not a credentials file: its type is none of {', '.join(sorted(_TYPES))}")
    return origin, data


def _reason(message: str) -> str:
    """Why the token endpoint refused, without what else the message holds."""
    code = re.search(r"\b(invalid|unauthorized|unsupported|access)_[a-z_]{1,40}\b|status [0-9]{3}", message)
    reason = f" ({code[0]})" if code else ""
    if "iat and exp" in message:
        return f"no token{reason}: the clock of this machine is wrong; set it"
    return f"no token{reason}: the key, login or identity was deleted, disabled or never valid"


def _now() -> float:
    return time.monotonic()


def _refused(cause: str) -> ProviderRefused:
    return ProviderRefused(
        "The gateway's credentials for the storage service do not work; tell the administrator.",
        cause=f"Google Cloud Storage: {cause}",
    )
