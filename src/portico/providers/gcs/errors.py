"""Errors of the service and of the HTTP client, translated to those of `portico.model.errors`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp

from portico.model.errors import (
    PorticoError,
    ProviderUnavailable,
    not_found,
    service_failed,
    service_refused,
    service_timeout,
    service_unavailable,
)
from portico.providers.gcs.responses import ErrorBody
from portico.providers.wire.responses import malformed_response

_TEMPORARY = frozenset({408, 429, 500, 502, 503, 504})
_THROTTLED = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded"})
_PERMISSION = re.compile(r"\bstorage\.[a-z]+\.[A-Za-z]+\b")
_SECRET = re.compile(r"(?i)bearer\s+\S+|ya29\.[\w.-]+|upload_id=[^&\s]+")
_RETRY_SECONDS = 5

_REASONS = {
    "authError": "it doesn't accept the access token: the account or its key may be deleted or disabled",
    "accountDisabled": "the project's billing account is disabled or missing: enable billing",
    "userProjectAccountProblem": "the project's billing account is disabled or missing: enable billing",
    "userProjectMissing": "the bucket makes requesters pay, which this gateway doesn't support",
    "retentionPolicyNotMet": "the bucket's retention policy doesn't allow replacing or deleting this object yet",
    "objectUnderActiveHold": "a hold on the object doesn't allow replacing or deleting it",
    "sslRequired": "it accepts only HTTPS: correct the option endpoint-url",
    "insufficientPermissions": "the credentials lack the scope devstorage.read_write (access scopes of the machine)",
}


class ServiceError(Exception):
    """An error response of the service."""

    def __init__(self, status: int, body: ErrorBody, retry_after: int | None = None) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.reason = body.reason
        self.text = _SECRET.sub("…", ascii(body.message[:300]))
        self.retry_after = retry_after
        self.missing_bucket = status == 404 and "bucket does not exist" in self.text

    @property
    def temporary(self) -> bool:
        return self.status in _TEMPORARY or (self.status == 403 and self.reason in _THROTTLED)


FAILURES = (ServiceError, aiohttp.ClientError, TimeoutError)
"""The errors of a failed attempt."""


def is_temporary(error: BaseException) -> bool:
    """Whether to try again. A timeout is not retried: the client has waited long enough."""
    if isinstance(error, ServiceError):
        return error.temporary
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.InvalidURL):
        return False
    if isinstance(error, TimeoutError):
        return isinstance(error, aiohttp.ConnectionTimeoutError)
    return isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError)


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Translate errors, without chaining: those of the HTTP client contain the request's headers and its token."""
    try:
        yield
    except ServiceError as error:
        raise _meaning(error, name) from None
    except aiohttp.ClientConnectorCertificateError as error:
        raise service_failed(f"{error.host} showed a TLS certificate that is not trusted") from None
    except aiohttp.ConnectionTimeoutError:
        raise _unavailable("no connection within 5 s: check the network, proxy and endpoint-url") from None
    except TimeoutError:
        raise service_timeout("Google Cloud Storage accepted a request and did not answer in time") from None
    except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
        raise _unavailable(f"no connection ({type(error).__name__}): check the network and endpoint-url") from None
    except aiohttp.ClientResponseError:
        raise service_failed("Google Cloud Storage: the endpoint does not speak HTTP") from None
    except aiohttp.ClientError as error:
        raise _unavailable(f"the connection broke off ({type(error).__name__})") from None


def _meaning(error: ServiceError, name: str) -> PorticoError:
    if error.temporary:
        seconds = error.retry_after or _RETRY_SECONDS
        return _unavailable(f"status {error.status} after all attempts: {error.text}", seconds)
    if error.missing_bucket:
        return service_refused("the bucket does not exist: correct the option bucket, or create it")
    if error.status == 404:
        return not_found(name)
    if error.status in (401, 403):
        return service_refused(f"Google Cloud Storage refused ({error.status}): {_remedy(error)}")
    if 300 <= error.status < 400:
        return malformed_response(f"a redirect that names no address ({error.status}): check the option endpoint-url")
    return service_failed(f"Google Cloud Storage answered {error.status} {error.reason}: {error.text}")


def _remedy(error: ServiceError) -> str:
    if permission := _PERMISSION.search(error.text):
        return f"the account lacks the permission {permission[0]} on the bucket; it said {error.text}"
    if sentence := _REASONS.get(error.reason):
        return f"{sentence}; it said {error.text}"
    if error.status == 401:
        return f"{_REASONS['authError']}; it said {error.text}"
    return f"{error.reason}: {error.text}"


def _unavailable(cause: str, seconds: int = _RETRY_SECONDS) -> ProviderUnavailable:
    return service_unavailable(f"Google Cloud Storage: {cause}", seconds)
