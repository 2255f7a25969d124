"""What errors of the Blob service mean; the table that both Azure services share is in `azure_common.errors`."""

from portico.providers.azure_common.errors import ServiceError

_NOT_FOUND = ("", "BlobNotFound", "ResourceNotFound")
_EXISTS = ("BlobAlreadyExists", "ConditionNotMet", "TargetConditionNotMet")


def is_absent(error: ServiceError) -> bool:
    """Whether the blob is missing, and not its container."""
    return error.status == 404 and error.code in _NOT_FOUND


def is_taken(error: Exception) -> bool:
    """Whether a write that must not replace anything met an existing blob."""
    return isinstance(error, ServiceError) and error.code in _EXISTS
