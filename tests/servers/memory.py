"""Where tests and their servers keep files: in memory if there is room. Durable writes to a disk took half of the time."""

import os
import shutil

_MEMORY = "/dev/shm"
_ENOUGH = 4 * 2**30


def data_folder() -> str | None:
    """For the `dir` of `tempfile`: None is the usual place. Containers often have a few megabytes of shared memory only, or
    run no programs from it."""
    if not os.access(_MEMORY, os.W_OK) or os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
        return None
    return _MEMORY if shutil.disk_usage(_MEMORY).free > _ENOUGH else None
