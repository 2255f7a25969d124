"""What the two Azure services share: credentials, the SDK's pipeline with bodies untouched, and the table of errors."""

from portico.providers.azure_common.access import Access, credential_and_url
from portico.providers.azure_common.errors import Fault, translated
from portico.providers.azure_common.service import Answer, Body, Service, Stream

__all__ = [
    "Access",
    "Answer",
    "Body",
    "Fault",
    "Service",
    "Stream",
    "credential_and_url",
    "translated",
]
