"""The client's errors as those of the operating system, which users of fsspec know how to catch."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from portico.client import (
    AddressNotAllowed,
    AlreadyExists,
    Changed,
    ClientError,
    ConnectionFailed,
    FolderNotEmpty,
    Forbidden,
    InvalidPath,
    InvalidRequest,
    IsAFolder,
    NotAFolder,
    NotFound,
    NotPossible,
    NotSignedIn,
    ProfileUnusable,
    ProviderRefused,
    ProviderTimeout,
    RequestTimeout,
    StorageFull,
    TooLarge,
    Unreachable,
)

_NUMBERS: dict[type[ClientError], int] = {
    NotFound: errno.ENOENT,
    AlreadyExists: errno.EEXIST,
    IsAFolder: errno.EISDIR,
    NotAFolder: errno.ENOTDIR,
    FolderNotEmpty: errno.ENOTEMPTY,
    NotSignedIn: errno.EACCES,
    ProfileUnusable: errno.EACCES,
    Forbidden: errno.EACCES,
    AddressNotAllowed: errno.EACCES,
    ProviderRefused: errno.EACCES,
    Changed: errno.ESTALE,
    StorageFull: errno.ENOSPC,
    TooLarge: errno.EFBIG,
    InvalidPath: errno.EINVAL,
    InvalidRequest: errno.EINVAL,
    NotPossible: errno.EINVAL,
    ConnectionFailed: errno.ECONNABORTED,
    Unreachable: errno.ECONNREFUSED,
    ProviderTimeout: errno.ETIMEDOUT,
    RequestTimeout: errno.ETIMEDOUT,
}


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Errors of the client as `FileNotFoundError`, `PermissionError` and so on; the client's own is the cause."""
    try:
        yield
    except ClientError as error:
        number = next((_NUMBERS[kind] for kind in type(error).__mro__ if kind in _NUMBERS), errno.EIO)
        # OSError makes the subclass that belongs to the number.
        raise OSError(number, str(error), path) from error
