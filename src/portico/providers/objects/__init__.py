"""Files and folders on object stores, which only know keys."""
