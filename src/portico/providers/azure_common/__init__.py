"""What the two Azure services share: credentials, the SDK's pipeline with bodies untouched, and the table of errors."""
