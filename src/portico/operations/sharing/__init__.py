"""Share links and their guests."""
