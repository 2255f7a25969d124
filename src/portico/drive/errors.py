"""Errors of a drive say what a user knows: whole paths instead of the names that providers know, and how to continue."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy

from portico.model.errors import NotFound, PorticoError, not_found
from portico.model.paths import Path
from portico.store.trash import Trashed


def with_whole_path(error: PorticoError, path: Path) -> PorticoError:
    """The error that `path` does not exist, with the path as the user sees it; any other error as it is."""
    if type(error) is NotFound and error.detail == not_found(path.name).detail:
        return not_found(str(path), cause=error.cause)
    return error


@contextmanager
def named_as_it_was(record: Trashed, target: Path) -> Iterator[None]:
    """In the trash it has an id as its name, which says nothing to users."""
    try:
        yield
    except PorticoError as error:
        if record.id not in error.detail:
            raise
        if isinstance(error, NotFound):
            raise NotFound(
                f"The content of '{target.name}' is no longer in the storage, so it can't be restored."
            ) from error
        renamed = copy(error)
        renamed.detail = error.detail.replace(record.id, target.name)
        renamed.args = (renamed.detail,)
        raise renamed from error


@contextmanager
def with_advice(advice: str, path: Path, *, gone: str | None = None) -> Iterator[None]:
    """Add to a partial failure how to continue. `gone`: what to do instead if the rest is not there any more."""
    try:
        yield
    except PorticoError as error:
        if not error.partial:
            raise with_whole_path(error, path) from None
        raise error.with_sentence(gone if gone and isinstance(error, NotFound) else advice) from error
