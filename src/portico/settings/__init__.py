"""All settings. Read by `server` and `cli` only."""
