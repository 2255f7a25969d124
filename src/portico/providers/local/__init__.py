"""`local`: a plain folder of this machine, the embedded default."""
