"""One tree in one storage service: confinement, rights, order, cursors, trash, free names."""
