"""Side-by-side measurements: every figure of ours stands beside that of a peer from the same run, as a ratio."""
