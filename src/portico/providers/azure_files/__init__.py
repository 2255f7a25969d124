"""Azure File Share."""
