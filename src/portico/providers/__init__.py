"""Storage services behind one contract: shared code by role, then one folder per service, all alike."""
