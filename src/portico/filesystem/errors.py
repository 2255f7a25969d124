"""Translates the client's errors to `OSError`s, as users of fsspec expect."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from portico.client import ClientError, errors

_NUMBERS: dict[type[ClientError], int] = {
    errors.NotFound: errno.ENOENT,
    errors.AlreadyExists: errno.EEXIST,
    errors.IsAFolder: errno.EISDIR,
    errors.NotAFolder: errno.ENOTDIR,
    errors.FolderNotEmpty: errno.ENOTEMPTY,
    errors.NotSignedIn: errno.EACCES,
    errors.ProfileUnusable: errno.EACCES,
    errors.Forbidden: errno.EACCES,
    errors.AddressNotAllowed: errno.EACCES,
    errors.ProviderRefused: errno.EACCES,
    errors.Changed: errno.ESTALE,
    errors.StorageFull: errno.ENOSPC,
    errors.TooLarge: errno.EFBIG,
    errors.InvalidPath: errno.EINVAL,
    errors.InvalidRequest: errno.EINVAL,
    errors.NotPossible: errno.EINVAL,
    errors.ConnectionFailed: errno.ECONNABORTED,
    errors.Unreachable: errno.ECONNREFUSED,
    errors.ProviderTimeout: errno.ETIMEDOUT,
    errors.RequestTimeout: errno.ETIMEDOUT,
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
