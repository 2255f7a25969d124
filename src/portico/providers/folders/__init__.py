"""Services with real folders: walks, and the identity of a volume."""
