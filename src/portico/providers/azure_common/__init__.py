"""What the two Azure services share: credentials, the SDK's pipeline with bodies untouched, and the table of errors."""

from portico.providers.azure_common.credentials import Access, credential_and_url, invalid_option
from portico.providers.azure_common.errors import ServiceError, translated
from portico.providers.azure_common.service import Body, Response, Service, Stream

__all__ = [
    "Access",
    "Body",
    "Response",
    "Service",
    "ServiceError",
    "Stream",
    "credential_and_url",
    "invalid_option",
    "translated",
]
