"""Where test servers keep their data: in memory if there is room, because writing to a disk costs several times as much."""

import os
import shutil

_MEMORY = "/dev/shm"
_ENOUGH = 4 * 2**30


def data_folder() -> str | None:
    """For the `dir` of `tempfile`: None is the usual place. Containers often have a few megabytes of shared memory only."""
    if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH:
        return _MEMORY
    return None
