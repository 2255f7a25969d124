"""A record of uploads that run, by which what a process leaves behind when it dies is found and removed."""

from typing import Protocol


class LoggedUpload(Protocol):
    """A record that is renewed as long as its process lives. One of a process that died is abandoned a day later."""

    def update(self, state: bytes) -> None:
        """Record another state soon; not knowing it only makes the clean-up harder."""

    async def end(self) -> None:
        """Remove the record: nothing is left of the upload but the file."""

    async def leave(self) -> None:
        """Leave what there may be to the sweep."""


class UploadLog(Protocol):
    """The records of one connection."""

    async def begin(self, path: str, state: bytes) -> LoggedUpload:
        """Record an upload before it begins; `state` is for `Provider.resume_upload`, which abandons it."""


class NoUploadLog:
    """For providers that are opened for a moment, as by a test of the connection."""

    async def begin(self, path: str, state: bytes) -> LoggedUpload:
        return _Unlogged()


class _Unlogged:
    def update(self, state: bytes) -> None:
        return

    async def end(self) -> None:
        return

    async def leave(self) -> None:
        return
