"""`azure-blob`: a container of Azure Blob Storage."""

from portico.providers.azure_blob.provider import AzureBlobProvider

__all__ = ["AzureBlobProvider"]
