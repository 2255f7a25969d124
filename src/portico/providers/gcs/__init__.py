"""`gcs`: a bucket of Google Cloud Storage, through its JSON API."""
