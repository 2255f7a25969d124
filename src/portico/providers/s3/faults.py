"""What the service's errors mean to us: the one table."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import aiohttp
from botocore import exceptions as sdk
from botocore.parsers import ResponseParserError

from portico.errors import (
    Changed,
    InvalidCursor,
    InvalidPath,
    NotFound,
    PorticoError,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnavailable,
    RangeNotSatisfiable,
    StorageFull,
    TooLarge,
    already_exists,
)
from portico.providers.answers import nonsense

ERROR_IN_SUCCESS = "ErrorInSuccess"
"""Set in an error's answer if it came with the status of a success."""

_REFUSED = "The storage service does not let the gateway in; tell the administrator."
_BUSY = "The storage service is not available at the moment; try again in a while."
_SILENT = "The storage service did not answer in time; try again in a while."
_RETRY_SECONDS = 10

_CREDENTIALS: Mapping[str, str] = {
    "InvalidAccessKeyId": "the service does not know the access key id; check access-key-id, or make a new key",
    "SignatureDoesNotMatch": "the secret access key does not belong to the access key id; check secret-access-key",
    "ExpiredToken": "the temporary credentials have expired; renew them where they come from",
    "InvalidToken": "the session token is not valid; renew the credentials where they come from",
    "TokenRefreshRequired": "the temporary credentials have to be renewed where they come from",
    "RequestTimeTooSkewed": "the gateway's clock and the service's are more than 15 minutes apart; set the clock",
    "RequestExpired": "the gateway's clock and the service's are too far apart; set the clock",
    "AccountProblem": "there is a problem with the account that owns the bucket; see the service's console",
    "AllAccessDisabled": "all access to this bucket is disabled; see the service's console",
    "NotSignedUp": "the account is not signed up for this service",
    "InvalidObjectState": "the object lies in an archive storage class; restore it before it is read",
    "InvalidBucketName": "the bucket's name is not a valid one; check the option bucket",
}
_REGION = {
    *("PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed"),
    *("IllegalLocationConstraintException", "301", "307"),
}
_FULL = {"QuotaExceeded", "InsufficientStorage", "XMinioStorageFull"}
_THROTTLED = {
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
}

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
_OF_A_VERSION = {"GetObject", "HeadObject", "UploadPartCopy", "DeleteObject"}
"""Operations whose condition is about the version that is there."""


@contextmanager
def translated(key: str = "", bucket: str = "") -> Iterator[None]:
    """Errors of the SDK and the transport become ours."""
    try:
        yield
    except sdk.ClientError as error:
        raise _answered(error.response, error.operation_name, _name(key), bucket) from error
    except (sdk.ReadTimeoutError, TimeoutError) as error:
        raise ProviderTimeout(
            _SILENT, retry_after=_RETRY_SECONDS, cause="the service was silent past the deadline"
        ) from error
    except (sdk.ConnectionError, sdk.HTTPClientError, aiohttp.ClientError, OSError) as error:
        if isinstance(_cause(error), aiohttp.ClientResponseError | ValueError):
            raise nonsense("an answer that is no HTTP") from error
        raise ProviderUnavailable(
            _BUSY,
            retry_after=_RETRY_SECONDS,
            cause=f"the service cannot be reached ({type(error).__name__}); check region, endpoint-url and network",
        ) from error
    except (sdk.IncompleteReadError, ResponseParserError) as error:
        raise nonsense(f"a broken answer ({type(error).__name__})") from error
    except sdk.BotoCoreError as error:
        # What is left is about our own set-up; its text names profiles and files, no secrets.
        raise refused(_set_up(error)) from error
    except ValueError as error:  # the SDK's readers of dates and numbers
        raise nonsense("a field that makes no sense") from error


def _cause(error: Exception) -> object:
    """What the SDK had to say of an error that it wraps."""
    return error.kwargs.get("error") if isinstance(error, sdk.HTTPClientError) else error


def code_of(error: BaseException | None) -> str:
    """The service's own code behind an error of ours, or nothing."""
    cause = error.__cause__ if error else None
    return str(cause.response.get("Error", {}).get("Code", "")) if isinstance(cause, sdk.ClientError) else ""


def error_for(code: str, operation: str, key: str, bucket: str) -> PorticoError:
    """As `translated`, for a code that came inside of an answer."""
    return _answered({"Error": {"Code": code}}, operation, _name(key), bucket)


def _elsewhere(bucket: str, region: str) -> ProviderRefused:
    if re.fullmatch(r"[a-z0-9-]{1,32}", region):
        return refused(f"the bucket {bucket!r} lies in region {region!r}: set --option region={region}")
    return refused(f"the bucket {bucket!r} may lie in another region: check region and endpoint-url")


def refused(cause: str) -> ProviderRefused:
    return ProviderRefused(_REFUSED, cause=cause)


def silent(what: str) -> ProviderTimeout:
    return ProviderTimeout(_SILENT, retry_after=_RETRY_SECONDS, cause=what)


def _answered(answer: Mapping[str, Any], operation: str, name: str, bucket: str) -> PorticoError:
    error: Mapping[str, Any] = answer.get("Error", {})
    metadata: Mapping[str, Any] = answer.get("ResponseMetadata", {})
    headers: Mapping[str, str] = metadata.get("HTTPHeaders", {})
    code, status = str(error.get("Code", "")), int(metadata.get("HTTPStatusCode", 0))
    if answer.get(ERROR_IN_SUCCESS):
        return nonsense(f"{_word(code)} inside of a success ({operation})")
    if code in _REGION or (code == "400" and operation.startswith("Head")):
        return _elsewhere(bucket, str(error.get("Region") or headers.get("x-amz-bucket-region") or ""))
    if code == "NoSuchBucket":
        return refused(f"there is no bucket {bucket!r}: create it, or check bucket and endpoint-url")
    if code in _CREDENTIALS:
        return refused(_CREDENTIALS[code])
    if code in _FULL or status == 507:
        return StorageFull(
            "The storage is full; tell the administrator.", cause=f"{operation}: {_word(code)}"
        )
    if code in _THROTTLED or status == 429 or status >= 500:
        wait = headers.get("retry-after", "")
        seconds = min(int(wait), 3600) if wait.isdecimal() and len(wait) < 9 else _RETRY_SECONDS
        return ProviderUnavailable(
            _BUSY, retry_after=seconds, cause=f"{operation} failed with {_word(code)} after all attempts"
        )
    if status in (401, 403) or code in ("AccessDenied", "Forbidden", "403"):
        return refused(f"{operation} was refused: the credentials need {_PERMISSIONS.get(operation, 'more')}")
    return _about_the_object(error, code, status, operation, name)


def _about_the_object(
    error: Mapping[str, Any], code: str, status: int, operation: str, name: str
) -> PorticoError:
    if error.get("ArgumentName") == "continuation-token":
        return InvalidCursor("The cursor is no longer usable; start again without a cursor.")
    if code in ("NoSuchKey", "NoSuchUpload", "404") or status == 404:
        return NotFound(f"There is no '{name}'.")
    if code in ("ConditionalRequestConflict", "OperationAborted") or status == 409:
        return ProviderUnavailable(
            _BUSY, retry_after=1, cause=f"{operation} met another one on the same object"
        )
    if status == 412 and operation in _OF_A_VERSION:
        return Changed(f"'{name}' has changed meanwhile; start again.")
    if status == 412:
        return already_exists(name)
    if status == 416:
        return RangeNotSatisfiable(f"'{name}' is not that long.", size=0)
    if code == "KeyTooLongError":
        return InvalidPath("The path is too long for this storage; choose a shorter one.")
    if code == "EntityTooLarge":
        return TooLarge("The file is too large for this storage.")
    return nonsense(f"{_word(code)}, status {status}, to {operation}")


def _set_up(error: Exception) -> str:
    if isinstance(error, sdk.NoCredentialsError):
        return "no credentials were found: set access-key-id and secret-access-key, a profile, or an instance role"
    if isinstance(error, sdk.ParamValidationError):
        return "the SDK does not accept the request: check the option bucket"
    return f"the connection is not set up rightly: {error}"[:300]


def _word(code: str) -> str:
    """A code that is safe to log: the service may send anything."""
    return "".join(letter for letter in code[:64] if letter.isalnum()) or "an error"


def _name(key: str) -> str:
    return key.removesuffix("/").rpartition("/")[2]
