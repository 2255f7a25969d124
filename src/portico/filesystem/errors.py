"""Translates the client's errors to `OSError`s, as users of fsspec expect."""

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
def translate_errors(path: str) -> Iterator[None]:
    """Raise errors of the client as `FileNotFoundError`, `PermissionError` etc., with the original as the cause."""
    try:
        yield
    except ClientError as error:
        number = next((_NUMBERS[kind] for kind in type(error).__mro__ if kind in _NUMBERS), errno.EIO)
        # OSError picks the subclass for the number.
        raise OSError(number, str(error), path) from error
