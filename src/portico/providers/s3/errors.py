"""Errors of the service and the SDK, translated to those of `portico.model.errors`."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import aiohttp
from botocore import exceptions as sdk
from botocore.parsers import ResponseParserError

from portico.model.errors import (
    InvalidCursor,
    InvalidPath,
    PorticoError,
    ProviderTimeout,
    RangeNotSatisfiable,
    TooLarge,
    already_exists,
    changed,
    not_found,
    service_refused,
    service_timeout,
    service_unavailable,
    storage_full,
)
from portico.providers.objects.service import name_of
from portico.providers.wire.responses import malformed_response, retry_seconds

ERROR_IN_SUCCESS = "ErrorInSuccess"
"""Set in an error response whose status is a success."""

_RETRY_SECONDS = 10

_CREDENTIALS: Mapping[str, str] = {
    "InvalidAccessKeyId": "the service doesn't know the access key id; check access-key-id, or make a new key",
    "SignatureDoesNotMatch": "the secret access key doesn't belong to the access key id; check secret-access-key",
    "ExpiredToken": "the temporary credentials have expired; renew them at their source",
    "InvalidToken": "the session token is not valid; renew the credentials at their source",
    "TokenRefreshRequired": "the temporary credentials must be renewed at their source",
    "RequestTimeTooSkewed": "the gateway's clock and the service's are more than 15 minutes apart; set the clock",
    "RequestExpired": "the gateway's clock and the service's are too far apart; set the clock",
    "AccountProblem": "there is a problem with the account that owns the bucket; see the service's console",
    "AllAccessDisabled": "all access to this bucket is disabled; see the service's console",
    "NotSignedUp": "the account is not signed up for this service",
    "InvalidObjectState": "the object is in an archive storage class; restore it before it is read",
    "InvalidBucketName": "the bucket's name is not valid; check the option bucket",
}
_REGION = {
    *("PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed"),
    *("IllegalLocationConstraintException", "301", "307"),
}
_FULL = {"QuotaExceeded", "InsufficientStorage", "XMinioStorageFull"}
_THROTTLED = {"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "BandwidthLimitExceeded"}

_PERMISSIONS: Mapping[str, str] = {
    "ListObjectsV2": "s3:ListBucket on the bucket",
    "HeadObject": "s3:GetObject on the objects and s3:ListBucket on the bucket",
    "GetObject": "s3:GetObject on the objects",
    "PutObject": "s3:PutObject on the objects",
    "CreateMultipartUpload": "s3:PutObject on the objects",
    "UploadPart": "s3:PutObject on the objects",
    "CompleteMultipartUpload": "s3:PutObject on the objects",
    "AbortMultipartUpload": "s3:AbortMultipartUpload on the objects",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads on the bucket",
    "DeleteObject": "s3:DeleteObject on the objects",
    "DeleteObjects": "s3:DeleteObject on the objects",
    "CopyObject": "s3:GetObject and s3:PutObject (and the same for tags, if there are any) on the objects",
    "UploadPartCopy": "s3:GetObject and s3:PutObject on the objects",
    "AssumeRole": "sts:AssumeRole on the role of the option role-arn, and trust of that role in these credentials",
}
_CONDITIONAL_ON_VERSION = {"GetObject", "HeadObject", "UploadPartCopy", "DeleteObject"}
"""Operations whose condition is the version of the object."""


@contextmanager
def translated(key: str = "", bucket: str = "") -> Iterator[None]:
    try:
        yield
    except sdk.ClientError as error:
        raise _answered(error.response, error.operation_name, name_of(key), bucket) from error
    except (sdk.ReadTimeoutError, TimeoutError) as error:
        raise timed_out("the service was silent past the deadline") from error
    except (sdk.ConnectionError, sdk.HTTPClientError, aiohttp.ClientError, OSError) as error:
        wrapped = error.kwargs.get("error") if isinstance(error, sdk.HTTPClientError) else error
        if isinstance(wrapped, aiohttp.ClientResponseError | ValueError):
            raise malformed_response("a response that is not HTTP") from error
        raise service_unavailable(
            f"the service can't be reached ({type(error).__name__}); check region, endpoint-url and network",
            _RETRY_SECONDS,
        ) from error
    except (sdk.IncompleteReadError, ResponseParserError) as error:
        raise malformed_response(f"a broken response ({type(error).__name__})") from error
    except sdk.BotoCoreError as error:
        # The rest is about the configuration; the message names profiles and files, no secrets.
        raise service_refused(_set_up(error)) from error
    except ValueError as error:  # the SDK's readers of dates and numbers
        raise malformed_response("an invalid field") from error


def code_of(error: BaseException | None) -> str:
    """The service's error code behind a translated error, or an empty string."""
    cause = error.__cause__ if error else None
    return str(cause.response.get("Error", {}).get("Code", "")) if isinstance(cause, sdk.ClientError) else ""


def error_for(code: str, operation: str, key: str, bucket: str) -> PorticoError:
    """As `translated`, for an error code within a response."""
    return _answered({"Error": {"Code": code}}, operation, name_of(key), bucket)


def timed_out(cause: str) -> ProviderTimeout:
    return service_timeout(cause, _RETRY_SECONDS)


def _answered(answer: Mapping[str, Any], operation: str, name: str, bucket: str) -> PorticoError:
    error: Mapping[str, Any] = answer.get("Error", {})
    metadata: Mapping[str, Any] = answer.get("ResponseMetadata", {})
    headers: Mapping[str, str] = metadata.get("HTTPHeaders", {})
    code, status = str(error.get("Code", "")), int(metadata.get("HTTPStatusCode", 0))
    if answer.get(ERROR_IN_SUCCESS):
        return malformed_response(f"{_word(code)} within a success ({operation})")
    if code in _REGION or (code == "400" and operation.startswith("Head")):
        region = str(error.get("Region") or headers.get("x-amz-bucket-region") or "")
        if re.fullmatch(r"[a-z0-9-]{1,32}", region):
            return service_refused(f"the bucket {bucket!r} is in region {region!r}: set --option region={region}")
        return service_refused(f"the bucket {bucket!r} may be in another region: check region and endpoint-url")
    if code == "NoSuchBucket":
        return service_refused(f"the bucket {bucket!r} doesn't exist: create it, or check bucket and endpoint-url")
    if code in _CREDENTIALS:
        return service_refused(_CREDENTIALS[code])
    if code in _FULL or status == 507:
        return storage_full(f"{operation}: {_word(code)}")
    if code in _THROTTLED or status == 429 or status >= 500:
        seconds = retry_seconds(headers.get("retry-after")) or _RETRY_SECONDS
        return service_unavailable(f"{operation} failed with {_word(code)} after all attempts", seconds)
    if status in (401, 403) or code in ("AccessDenied", "Forbidden", "403"):
        return service_refused(f"{operation} was refused: the credentials need {_PERMISSIONS.get(operation, 'more')}")
    return _about_the_object(error, code, status, operation, name)


def _about_the_object(error: Mapping[str, Any], code: str, status: int, operation: str, name: str) -> PorticoError:
    if error.get("ArgumentName") == "continuation-token":
        return InvalidCursor("The cursor is no longer valid. Start again without a cursor.")
    if code in ("NoSuchKey", "NoSuchUpload", "404") or status == 404:
        return not_found(name)
    if code in ("ConditionalRequestConflict", "OperationAborted") or status == 409:
        return service_unavailable(f"{operation} conflicts with another request for the same object", 1)
    if status == 412 and operation in _CONDITIONAL_ON_VERSION:
        return changed(name)
    if status == 412:
        return already_exists(name)
    if status == 416:
        return RangeNotSatisfiable(f"The range is beyond the end of '{name}'. Request a range within the file.", size=0)
    if code == "KeyTooLongError":
        return InvalidPath("The path is too long for this storage. Choose a shorter one.")
    if code == "EntityTooLarge":
        return TooLarge("The file is too large for this storage. Upload a smaller file.")
    return malformed_response(f"{_word(code)}, status {status}, to {operation}")


def _set_up(error: Exception) -> str:
    if isinstance(error, sdk.NoCredentialsError):
        return "no credentials were found: set access-key-id and secret-access-key, a profile, or an instance role"
    if isinstance(error, sdk.ParamValidationError):
        return "the SDK doesn't accept the request: check the option bucket"
    return f"the connection is not set up correctly: {error}"[:300]


def _word(code: str) -> str:
    """The code in a form that is safe to log: the service may send anything."""
    return "".join(letter for letter in code[:64] if letter.isalnum()) or "an error"
