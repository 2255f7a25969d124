"""HTTP/1.1, with the standard library only."""
