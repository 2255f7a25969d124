"""Who acts, in which request, and what is recorded of it."""
