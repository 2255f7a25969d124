"""`portico://` for fsspec, and for pandas, DuckDB, Dask, Polars and all others that use it."""

from portico.filesystem.filesystem import PorticoFileSystem

__all__ = ["PorticoFileSystem"]
