"""The command `portico`: words to calls."""
