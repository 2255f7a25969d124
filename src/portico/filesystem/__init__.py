"""`portico://` for fsspec, and so for pandas, DuckDB, Dask, Polars and whatever else reads files through it."""

from portico.filesystem.tree import PorticoFileSystem

__all__ = ["PorticoFileSystem"]
