"""Azure File Share."""

from portico.providers.azure_files.provider import AzureFilesProvider

__all__ = ["AzureFilesProvider"]
