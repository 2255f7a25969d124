"""What errors of the File service mean; the table that both Azure services share is in `azure_common.errors`."""

from portico.providers.azure_common.errors import ServiceError


def is_absent(error: ServiceError) -> bool:
    """Whether there is no such file or folder at the path, whatever else there is."""
    return (error.status == 404 and error.code != "ShareNotFound") or error.code == "ResourceTypeMismatch"


def lacks_parent(error: ServiceError) -> bool:
    """Whether the parent folder of what was to be created may be missing."""
    return error.status == 404 and error.code != "ShareNotFound"
