"""Access tokens by google-auth, for every kind of credentials file. It blocks, so it runs in a thread."""

import re
from datetime import UTC, datetime
from typing import Any

import aiohttp

from portico.providers.gcs.errors import ServiceError
from portico.providers.gcs.responses import read_error
from portico.providers.responses import malformed_response
from portico.providers.transport import CONNECT_SECONDS, MAX_RESPONSE_BYTES

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
    from google.auth import (
        aws,
        external_account_authorized_user,
        identity_pool,
        impersonated_credentials,
        pluggable,
    )
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
            options |= {
                "allow_redirects": False,
                "stream": True,
                "timeout": (CONNECT_SECONDS, READ_SECONDS),
            }
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
            response._content = content
            return response

    session = Session()
    session.headers["Accept-Encoding"] = "identity"
    return session
