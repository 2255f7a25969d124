"""`gcs`: a bucket of Google Cloud Storage, through its JSON interface."""

from portico.providers.gcs.provider import GcsProvider

__all__ = ["GcsProvider"]
