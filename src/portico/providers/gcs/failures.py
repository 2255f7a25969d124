"""What Google's refusals, and its silence, mean in our words."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp

from portico.errors import (
    NotFound,
    PorticoError,
    ProviderFailed,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnavailable,
)
from portico.providers.answers import nonsense
from portico.providers.gcs.answers import Fault

_REFUSED = "The storage service does not let the gateway do this; tell the administrator."
_BUSY = "The storage service is busy or out of reach; try again in a moment."
_SILENT = "The storage service did not answer in time; try again in a moment."
_FAILED = "The storage service reported an error; tell the administrator."

_TEMPORARY = frozenset({408, 429, 500, 502, 503, 504})
_THROTTLED = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded"})
_PERMISSION = re.compile(r"\bstorage\.[a-z]+\.[A-Za-z]+\b")
_SECRET = re.compile(r"(?i)bearer\s+\S+|ya29\.[\w.-]+|upload_id=[^&\s]+")
_RETRY_SECONDS = 5

_REASONS = {
    "authError": "it does not accept the access token: the account or its key may be deleted or disabled",
    "accountDisabled": "the project's billing account is disabled or missing: enable billing",
    "userProjectAccountProblem": "the project's billing account is disabled or missing: enable billing",
    "userProjectMissing": "the bucket makes requesters pay, which this gateway does not support",
    "retentionPolicyNotMet": "the bucket's retention policy forbids to replace or delete this object yet",
    "objectUnderActiveHold": "a hold on the object forbids to replace or delete it",
    "sslRequired": "it takes HTTPS only: correct the option endpoint-url",
    "insufficientPermissions": "the credentials lack the scope devstorage.read_write (access scopes of the machine)",
}


class ServiceError(Exception):
    """An answer of the service that is no success."""

    def __init__(self, status: int, fault: Fault, retry_after: int | None = None) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.reason = fault.reason
        self.text = _SECRET.sub("…", ascii(fault.message[:300]))
        self.retry_after = retry_after
        self.missing_bucket = status == 404 and "bucket does not exist" in self.text

    @property
    def temporary(self) -> bool:
        return self.status in _TEMPORARY or (self.status == 403 and self.reason in _THROTTLED)


FAILURES = (ServiceError, aiohttp.ClientError, TimeoutError)
"""What an attempt can end with."""


def is_temporary(error: BaseException) -> bool:
    """Whether another attempt may succeed; after so long a silence nobody waits for another."""
    if isinstance(error, ServiceError):
        return error.temporary
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.InvalidURL):
        return False
    if isinstance(error, TimeoutError):
        return isinstance(error, aiohttp.ConnectionTimeoutError)
    return isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError)


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn the service's errors into ours; `name` is what the user calls the object.

    The originals are not chained: those of the HTTP client carry the request's headers, and so the token.
    """
    try:
        yield
    except ServiceError as error:
        raise _meaning(error, name) from None
    except aiohttp.ClientConnectorCertificateError as error:
        raise ProviderFailed(
            _FAILED, cause=f"{error.host} showed a TLS certificate that is not trusted"
        ) from None
    except aiohttp.ConnectionTimeoutError:
        raise _unavailable("no connection within 5 s: check the network, proxy and endpoint-url") from None
    except TimeoutError:
        raise ProviderTimeout(
            _SILENT, cause="Google Cloud Storage accepted a request and did not answer in time"
        ) from None
    except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
        raise _unavailable(
            f"no connection ({type(error).__name__}): check the network and endpoint-url"
        ) from None
    except aiohttp.ClientResponseError as error:
        if error.status >= 500:  # of a token endpoint
            raise _unavailable(f"status {error.status} instead of a token, after all attempts") from None
        raise ProviderFailed(
            _FAILED, cause="Google Cloud Storage: what answers there does not speak HTTP"
        ) from None
    except aiohttp.ClientError as error:
        raise _unavailable(f"the connection broke off ({type(error).__name__})") from None


def _meaning(error: ServiceError, name: str) -> PorticoError:
    if error.temporary:
        seconds = error.retry_after or _RETRY_SECONDS
        return _unavailable(f"status {error.status} after all attempts: {error.text}", seconds)
    if error.missing_bucket:
        return ProviderRefused(
            _REFUSED, cause="the bucket does not exist: correct the option bucket, or create it"
        )
    if error.status == 404:
        return NotFound(f"There is no '{name}'.")
    if error.status in (401, 403):
        return ProviderRefused(
            _REFUSED, cause=f"Google Cloud Storage refused ({error.status}): {_mend(error)}"
        )
    if 300 <= error.status < 400:
        return nonsense(f"a redirect that names no address ({error.status}): check the option endpoint-url")
    return ProviderFailed(
        _FAILED, cause=f"Google Cloud Storage answered {error.status} {error.reason}: {error.text}"
    )


def _mend(error: ServiceError) -> str:
    if permission := _PERMISSION.search(error.text):
        return f"the account lacks the permission {permission[0]} on the bucket; it said {error.text}"
    if sentence := _REASONS.get(error.reason):
        return f"{sentence}; it said {error.text}"
    if error.status == 401:
        return f"{_REASONS['authError']}; it said {error.text}"
    return f"{error.reason}: {error.text}"


def _unavailable(cause: str, seconds: int = _RETRY_SECONDS) -> ProviderUnavailable:
    return ProviderUnavailable(_BUSY, retry_after=seconds, cause=f"Google Cloud Storage: {cause}")
