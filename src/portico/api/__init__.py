"""HTTP: reads a request, calls one operation, writes the response."""
