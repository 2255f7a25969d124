"""`azure-blob`: a container of Azure Blob Storage."""
