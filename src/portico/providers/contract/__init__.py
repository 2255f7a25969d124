"""What every storage service implements, and how one is opened."""
