"""The processes that serve: composition, workers, certificates."""
