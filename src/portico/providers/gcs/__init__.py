"""`gcs`: a bucket of Google Cloud Storage, through its JSON API."""

from portico.providers.gcs.provider import GcsProvider

__all__ = ["GcsProvider"]
