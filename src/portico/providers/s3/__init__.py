"""`s3`: a bucket of Amazon S3 or of a compatible service."""
