"""Where the access token comes from.

A key file that is named, else the one of `GOOGLE_APPLICATION_CREDENTIALS`, else what `gcloud auth application-default
login` left, else the metadata server of the machine. The files are read anew for each token, so that a changed key
needs no restart.
"""

import asyncio
import io
import json
import os
import re
import time
from pathlib import Path as File
from typing import Any

import aiohttp
import structlog
from gcloud.aio.auth import Token

from portico.errors import PorticoError, ProviderRefused
from portico.providers.gcs import rare_identities
from portico.providers.gcs.failures import translated
from portico.providers.gcs.service import Patience

SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_SECONDS = 10
_AHEAD = 300
"""Seconds before its end at which a token is renewed."""
_ENOUGH = 30
"""Seconds that a token must still be good for to be used while its successor cannot be had."""

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


class Tokens:
    """The current access token, got once for all requests and renewed before it ends."""

    def __init__(self, key_file: str | None) -> None:
        self._key_file = key_file
        self._token: str | None = None
        self._renew_at = 0.0
        self._ends_at = 0.0
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
            if self._token is None or self._ends_at - asked < _ENOUGH:
                raise
            log.warning("token-not-renewed", provider="gcs", why=error.cause)
            self._renew_at = asked + _ENOUGH / 2
            return
        self._ends_at = asked + lifetime
        self._renew_at = asked + max(lifetime - _AHEAD, lifetime / 2)


async def _obtain(key_file: str | None, session: aiohttp.ClientSession) -> tuple[str, float]:
    """A new token and the seconds that it is good for."""
    place, data = await asyncio.to_thread(_key_data, key_file)
    patience = Patience()
    with translated("token"):
        while True:
            try:
                if rare_identities.is_rare(data):
                    return await asyncio.to_thread(rare_identities.obtain, data, SCOPE)
                return await _through_gcloud_aio(data, session)
            except aiohttp.ClientResponseError as error:
                if error.status < 500 and error.status != 429:
                    raise _refused(f"{place}: {_why(error)}") from None
                await patience.after(error, again=True)
            except aiohttp.ClientConnectionError as error:
                if not data:
                    raise _refused(f"{place}: it is out of reach. {_NO_CREDENTIALS}") from None
                await patience.after(error)
            except (TimeoutError, PorticoError):
                raise
            except Exception as error:
                # Bad keys, missing fields and unreadable tokens of other parties have no common family.
                raise _refused(f"{place} cannot be used ({type(error).__name__})") from None


def _key_data(key_file: str | None) -> tuple[str, dict[str, Any]]:
    """What the credentials are called, and what their file says; nothing of a file means the metadata server."""
    if file := key_file or os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        place = f"the credentials file {file}"
    else:
        folder = os.environ.get("CLOUDSDK_CONFIG") or File.home() / ".config" / "gcloud"
        file = str(File(folder) / "application_default_credentials.json")
        if not File(file).exists():
            return "the metadata server of this machine", {}
        place = f"the login of gcloud in {file}"
    try:
        data = json.loads(File(file).read_bytes())
    except OSError as error:
        raise _refused(f"{place} cannot be read: {error.strerror}") from None
    except ValueError:
        raise _refused(f"{place} is not JSON") from None
    if not isinstance(data, dict) or data.get("type") not in _TYPES:
        raise _refused(f"{place} is no credentials file: its type is none of {', '.join(sorted(_TYPES))}")
    return place, data


async def _through_gcloud_aio(data: dict[str, Any], session: aiohttp.ClientSession) -> tuple[str, float]:
    # Not by its name: of a file that it cannot read, gcloud-aio makes a request to the metadata server.
    file = io.StringIO(json.dumps(data))
    source = Token(file, session=session, scopes=[SCOPE])  # type: ignore[arg-type] # one name for two libraries
    answer = await source.refresh(timeout=_SECONDS)
    return answer.value, float(answer.expires_in)


def _why(error: aiohttp.ClientResponseError) -> str:
    """What the token endpoint had against it."""
    code = re.search(r'"error"\s*:\s*"([a-z_]{1,40})"', error.message)
    told = f"{error.status} {code[1] if code else ''}".rstrip()
    if "iat and exp" in error.message:
        return f"no token ({told}): the clock of this machine is wrong; set it"
    return f"no token ({told}): the key, login or identity was deleted, disabled or never valid"


def _now() -> float:
    return time.monotonic()


def _refused(cause: str) -> ProviderRefused:
    return ProviderRefused(
        "The gateway's credentials for the storage service do not work; tell the administrator.",
        cause=f"Google Cloud Storage: {cause}",
    )
