"""Side-by-side measurements: each figure is compared with a peer from the same run, as a ratio."""
