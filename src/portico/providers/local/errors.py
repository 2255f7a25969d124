"""The operating system's errors as errors of `portico.model.errors`."""

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from portico.model.errors import (
    FREE_SPACE,
    InvalidPath,
    NotAFolder,
    PorticoError,
    StorageFull,
    Unavailable,
    folder_not_empty,
    invalid_name,
    is_a_folder,
    not_found,
    service_failed,
    service_refused,
    service_unavailable,
    storage_full,
)
from portico.model.paths import Path

_RETRY_SECONDS = 1
_TOO_MANY_FILES = "The gateway is serving too many files at once. Try again in a moment."


def _error(kind: type[PorticoError], sentence: str, retry_after: int | None = None) -> Callable[[str], PorticoError]:
    return lambda name: kind(sentence.format(name=name), retry_after=retry_after)


_ERRORS: Mapping[int, Callable[[str], PorticoError]] = {
    errno.ENOENT: not_found,
    errno.ELOOP: not_found,
    errno.ENXIO: not_found,  # a socket, or a device that does not exist
    errno.ENODEV: not_found,
    errno.ENOTDIR: _error(NotAFolder, "'{name}' is a file or is below one, so it can't be used as a folder."),
    errno.EISDIR: is_a_folder,
    errno.ENOTEMPTY: folder_not_empty,
    errno.ENAMETOOLONG: _error(InvalidPath, "A name in the path exceeds 255 bytes. Choose a shorter one."),
    errno.EILSEQ: invalid_name,
    errno.EINVAL: invalid_name,
    errno.ENOSPC: lambda _: storage_full(),
    errno.EDQUOT: _error(StorageFull, f"The storage's quota is used up. {FREE_SPACE}"),
    errno.EFBIG: _error(StorageFull, "The file is too large for the storage. Upload a smaller file."),
    errno.EACCES: lambda _: service_refused(),
    errno.EPERM: lambda _: service_refused(),
    errno.EROFS: lambda _: service_refused(),
    errno.EMFILE: _error(Unavailable, _TOO_MANY_FILES, _RETRY_SECONDS),
    errno.ENFILE: _error(Unavailable, _TOO_MANY_FILES, _RETRY_SECONDS),
    errno.ENOMEM: _error(Unavailable, "The gateway is short of memory. Try again in a moment.", _RETRY_SECONDS),
    errno.ESTALE: lambda _: service_unavailable(None, _RETRY_SECONDS),
    errno.ENOTCONN: lambda _: service_unavailable(None, _RETRY_SECONDS),  # a FUSE mount without its server
    errno.EHOSTDOWN: lambda _: service_unavailable(None, _RETRY_SECONDS),
    errno.ETIMEDOUT: lambda _: service_unavailable(None, _RETRY_SECONDS),
    errno.EIO: lambda _: service_failed(),
}
"""The error for the name of a file or folder, by errno."""


def translate(error: OSError, path: Path) -> PorticoError:
    """The error to raise for an operating system error about `path`."""
    make = _ERRORS.get(error.errno or 0)
    translation = make(path.name) if make else service_failed()
    translation.cause = f"{error.strerror} (errno {error.errno}) at {path}"
    return translation


@contextmanager
def translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise translate(error, path) from error
