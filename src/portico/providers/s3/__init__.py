"""`s3`: a bucket of Amazon S3 or of a compatible service."""

from portico.providers.s3.provider import S3Provider

__all__ = ["S3Provider"]
