"""Reading, finding and storing files."""
