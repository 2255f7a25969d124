"""Sign-ins, tokens and saved profiles."""
