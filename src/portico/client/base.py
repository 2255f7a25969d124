"""The base class of both clients: what they are made of, and the methods that they have in common."""

import os
import ssl
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, BinaryIO, Concatenate, ParamSpec, Protocol, Self, TypeVar, Unpack, cast, overload

from portico.client import files, jobs, moves, shares, trash
from portico.client.auth import profiles
from portico.client.auth.session import AuthSession
from portico.client.auth.tokens import Credentials, MemoryTokenStore, Tokens, TokenStore
from portico.client.entries import Entry
from portico.client.files import OnConflict
from portico.client.http.effects import Operation, T
from portico.client.http.origin import Origin
from portico.client.jobs import Job, JobProgress
from portico.client.shares import Access, LinkKind, LinkOptions, ShareLink
from portico.client.transfers import archives, downloads, uploads
from portico.client.transfers.batches import upload_item
from portico.client.transfers.progress import Progress, Received, Resumed
from portico.client.transfers.resumable_upload import ResumableUploads, UploadOptions
from portico.client.transfers.sources import Uploadable
from portico.client.transfers.upload_records import UploadsInFolder, UploadsInMemory

LocalPath = str | os.PathLike[str]

P = ParamSpec("P")
Result = TypeVar("Result", covariant=True)


class _Client(Protocol):
    def __enter__(self) -> Any: ...


class _AsyncClient(Protocol):
    def __aenter__(self) -> Any: ...


class _Method(Protocol[P, Result]):
    @overload
    def __get__(self, client: None, kind: type[_Client]) -> Callable[Concatenate[Any, P], Result]: ...

    @overload
    def __get__(self, client: _Client, kind: Any) -> Callable[P, Result]: ...

    @overload
    def __get__(self, client: _AsyncClient, kind: Any) -> Callable[P, Coroutine[Any, Any, Result]]: ...


def on_both(begin: Callable[Concatenate[Any, P], Operation[T]]) -> _Method[P, T]:
    """A method that begins an operation: `Client` runs it, and `AsyncClient` returns a coroutine that does."""

    @wraps(begin)
    def method(client: Any, *arguments: P.args, **options: P.kwargs) -> Any:
        return client._call(begin, *arguments, **options)

    return cast("_Method[P, T]", method)


class Base:
    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        key: str | None = None,
        tokens: TokenStore | Tokens | None = None,
        ca: str | ssl.SSLContext | None = None,
        connections: int = 8,
        timeout: float = 30.0,
        attempts: int = 6,
        resume_folder: LocalPath | None = None,
    ) -> None:
        """Sends nothing: the client signs in with its first request.

        `key` is an API key, which replaces a sign-in. `client_id` and `client_secret` are requested from the gateway if omitted. `tokens` are those of an earlier
        sign-in, or a store for them. `ca` is a certificate file to trust, for a gateway with a self-signed certificate.
        `connections` is the maximum number of connections, `timeout` how long the gateway may take to respond, in
        seconds, and `attempts` how often a request is tried. In `resume_folder` the client notes unfinished uploads of large
        local files, so that another process can resume them; without it, only this client can.
        """
        if key is not None:
            if password is not None or tokens is not None:
                raise ValueError("Pass only one of a key, a password or tokens.")
            tokens = Tokens(key)
        store = MemoryTokenStore(tokens) if tokens is None or isinstance(tokens, Tokens) else tokens
        credentials = Credentials(username, password, client_id, client_secret)
        self._session = AuthSession(credentials, store, attempts=attempts)
        self._resumable = ResumableUploads(
            self._session, UploadsInFolder(resume_folder, username or "") if resume_folder else UploadsInMemory()
        )
        self._limit = connections
        origin = Origin.of(url, ca)
        self._base_url = origin.url
        self._open(origin, timeout)

    @classmethod
    def of_profile(
        cls,
        name: str | None = None,
        *,
        connections: int = 8,
        timeout: float = 30.0,
        attempts: int = 6,
        resume_folder: LocalPath | None = None,
    ) -> Self:
        """A client with the gateway and user of a `portico login`; raises `ProfileUnusable` if there is none.

        The default is the profile in `PORTICO_PROFILE`, or `default`. Renewed tokens are saved in the profile.
        """
        profile = profiles.get(name or profiles.default_name())
        return cls(
            profile.url,
            username=profile.user,
            tokens=profiles.ProfileTokenStore(profile),
            ca=profile.ca,
            connections=connections,
            timeout=timeout,
            attempts=attempts,
            resume_folder=resume_folder,
        )

    def _open(self, origin: Origin, timeout: float) -> None:
        raise NotImplementedError

    @on_both
    def login(self, username: str | None = None, password: str | None = None) -> Operation[Tokens]:
        """Sign in now; user name and password default to those passed to the constructor."""
        return self._session.login(username, password)

    @on_both
    def logout(self) -> Operation[None]:
        """Revoke the tokens and forget them."""
        return self._session.logout()

    @on_both
    def stat(self, path: str) -> Operation[Entry]:
        """One file or folder; raises `NotFound` if it does not exist."""
        return files.stat(self._session, path)

    @on_both
    def head(self, path: str) -> Operation[Entry]:
        """A file with its `etag`, as a download would report it; raises `IsAFolder` for a folder."""
        return files.head(self._session, path)

    @on_both
    def upload(
        self,
        source: Uploadable,
        path: str,
        *,
        on_conflict: OnConflict | None = None,
        content_type: str | None = None,
        verify: bool = False,
        times: bool = False,
        receipt: bool = False,
        progress: Progress | None = None,
        resume: bool = True,
    ) -> Operation[Entry | None]:
        """Upload a local file, bytes or a stream to a path. A path that ends with a slash is the target folder.

        Missing folders are created. The file becomes visible only when it is complete, and is stored durably when this
        returns. `verify` compares SHA-256 digests, `times` keeps the modification time of a local file, and `receipt` asks
        for a signed receipt. The returned entry has the name under which the file is stored; None if `rename` may have
        changed it and the gateway did not report it.

        A file of 16 MiB or more is sent in parts. After a failure, only the rest is sent; with `resume`, also in another call
        with the same local file and path. Its parts are verified one by one. Without `resume`, it is sent in one request.
        """
        file = upload_item(source, path, content_type)
        resumable = self._resumable if resume else None
        options = UploadOptions(on_conflict, verify, progress, None, times, receipt, resumable)
        return uploads.upload(self._session, file, options)

    @on_both
    def upload_all(
        self,
        items: Iterable[tuple[Uploadable, str]],
        *,
        on_conflict: OnConflict | None = None,
        verify: bool | int = False,
        times: bool = False,
        receipts: bool = False,
        progress: Progress | None = None,
        stored: Received | None = None,
        resume: bool = True,
        resumed: Resumed | None = None,
    ) -> Operation[None]:
        """Upload many files, given as for `upload`. Small files share requests, and several requests run at once.

        If single files fail, the others are still uploaded; `TransfersFailed` lists the failures at the end. `stored` is
        called with the `Receipt` of each stored file. `verify` may be a number of bytes: larger files are not verified.
        `resumed` is called with the path, the bytes that the gateway has, and the size of a file that an earlier call or
        process has sent in part.
        """
        resumable = self._resumable if resume else None
        options = UploadOptions(on_conflict, verify, progress, stored, times, receipts, resumable, resumed)
        return uploads.upload_all(self._session, items, options, self._limit)

    @on_both
    def download(
        self, path: str | Entry, target: LocalPath | BinaryIO, *, resume: bool = False, progress: Progress | None = None
    ) -> Operation[None]:
        """Download a file to a local path, or into a binary stream.

        The local file appears when it is complete; large files are fetched in several ranges at once. With `resume`, an
        interrupted download of more than 16 MiB continues if the file on the gateway has not changed. If the target is a folder, the file
        keeps its name in it; a target that ends with a slash is created. If an entry of a listing is given instead of a
        path, the local file gets its modification time.
        """
        if isinstance(target, str | os.PathLike):
            options = downloads.Options(resume, progress, self._limit)
            yield from downloads.to_file(self._session, path, target, options)
        else:
            yield from downloads.to_stream(self._session, path, target, progress)

    @on_both
    def download_all(
        self,
        items: Iterable[tuple[str | Entry, LocalPath]],
        *,
        resume: bool = False,
        progress: Progress | None = None,
        fetched: Received | None = None,
        times: bool = True,
        verify: bool = False,
        resumed: Resumed | None = None,
    ) -> Operation[None]:
        """Download many files, each from a path or entry to a local path; `TransfersFailed` lists failures at the end.

        `fetched` is called with the `Receipt` of each downloaded file. `times`: the files get the modification times of
        their entries. `verify` compares each file with the SHA-256 that the gateway has recorded; if it has none, the
        receipt says that the file is not `verified`. `resumed` is called with the path, the bytes that an earlier call or
        process has fetched, and the size of a file that is continued.
        """
        options = downloads.Options(resume, progress, self._limit, fetched, times, verify, resumed)
        return downloads.to_files(self._session, items, options)

    @on_both
    def download_zip(
        self, path: str, target: LocalPath | BinaryIO, *, paths: Sequence[str] = (), progress: Progress | None = None
    ) -> Operation[None]:
        """Download a folder as one ZIP, or only some `paths` in it, which count from the folder.

        The target is a local file or a stream. The archive cannot be resumed; one that is complete holds every file.
        """
        if isinstance(target, str | os.PathLike):
            yield from archives.to_file(self._session, path, paths, target, progress)
        else:
            yield from archives.to_stream(self._session, path, paths, target, progress)

    @on_both
    def read(self, path: str, start: int = 0, stop: int | None = None, *, etag: str | None = None) -> Operation[bytes]:
        """The content of a file from `start` to `stop`, with the bounds of a slice.

        With an `etag`, raises `Changed` if the file has another version.
        """
        return downloads.read(self._session, path, start, stop, etag)

    @on_both
    def make_folder(self, path: str) -> Operation[None]:
        """Create a folder and its parents; an existing folder is not an error."""
        return files.make_folder(self._session, path)

    @on_both
    def move(
        self,
        source: str,
        target: str,
        *,
        on_conflict: OnConflict | None = None,
        progress: JobProgress | None = None,
        wait: bool = True,
    ) -> Operation[Job | None]:
        """Move or rename a file or folder. If the target is an existing folder, the two are merged.

        With `progress`, a move of more than a second is a job on the gateway: `progress` is called with it about once a
        second. Without `wait`, the job is returned at once, and goes on even if this process ends; None if the move is done.
        """
        waiting = jobs.Waiting(progress, wait)
        return moves.transfer(self._session, "MOVE", source, target, on_conflict, waiting)

    @on_both
    def copy(
        self,
        source: str,
        target: str,
        *,
        on_conflict: OnConflict | None = None,
        progress: JobProgress | None = None,
        wait: bool = True,
    ) -> Operation[Job | None]:
        """Copy a file or a folder with its content on the gateway, without a download. `progress`, `wait`: as in `move`."""
        waiting = jobs.Waiting(progress, wait)
        return moves.transfer(self._session, "COPY", source, target, on_conflict, waiting)

    @on_both
    def delete(
        self, path: str, *, recursive: bool = False, permanent: bool = False, progress: JobProgress | None = None
    ) -> Operation[str | None]:
        """Delete a file or an empty folder; with `recursive`, a folder with its content.

        Returns the id with which `restore` brings it back, if the gateway keeps it. With `permanent`, it does not. `progress`: as in
        `move`.
        """
        return files.delete(self._session, path, recursive=recursive, permanent=permanent, progress=progress)

    @on_both
    def jobs(self) -> Operation[Sequence[Job]]:
        """The user's jobs, the newest first; those that have ended are kept for a day."""
        return jobs.newest(self._session)

    @on_both
    def job(self, job_id: str) -> Operation[Job]:
        """A job as it is now; raises `NotFound` if it is forgotten."""
        return jobs.get(self._session, job_id)

    @on_both
    def wait_for_job(self, job_id: str, *, progress: JobProgress | None = None) -> Operation[Job]:
        """The job when it is done. Raises its error if it failed, and `JobCancelled` if it was cancelled."""
        return jobs.wait_for(self._session, job_id, progress)

    @on_both
    def cancel_job(self, job_id: str) -> Operation[Job]:
        """Cancel a running job, or forget one that has ended. The job as it was before that."""
        return jobs.cancel(self._session, job_id)

    @on_both
    def restore(
        self, trash_id: str, *, on_conflict: OnConflict = "fail", progress: JobProgress | None = None
    ) -> Operation[str]:
        """Bring back what was deleted or replaced; returns its path. To undo a replacement, use `replace`.

        `progress`: as in `move`.
        """
        return trash.restore(self._session, trash_id, on_conflict, progress)

    @on_both
    def remove_trashed(self, trash_id: str, *, progress: JobProgress | None = None) -> Operation[None]:
        """Remove one item of the trash for good. `progress`: as in `move`."""
        return trash.remove(self._session, trash_id, progress)

    @on_both
    def empty_trash(self, *, progress: JobProgress | None = None) -> Operation[None]:
        """Remove everything in the trash for good. `progress`: as in `move`."""
        return trash.empty(self._session, progress)

    @on_both
    def share(self, path: str, kind: LinkKind = "download", **options: Unpack[LinkOptions]) -> Operation[ShareLink]:
        """Share a file or folder with people without an account; the link in the answer has its `address`."""
        return shares.add(self._session, self._base_url, path, kind, options)

    @on_both
    def links(self) -> Operation[Sequence[ShareLink]]:
        """One's share links, the newest first; without their addresses."""
        return shares.listed(self._session)

    @on_both
    def change_link(self, link_id: str, **options: Unpack[LinkOptions]) -> Operation[ShareLink]:
        """Change what is given; None takes a password, an end or a limit away."""
        return shares.change(self._session, link_id, options)

    @on_both
    def renew_link(self, link_id: str) -> Operation[ShareLink]:
        """Give a link another address; the former one does not work any more, and its guests have to open the new one."""
        return shares.renew(self._session, self._base_url, link_id)

    @on_both
    def end_link(self, link_id: str) -> Operation[None]:
        """Within a second, nobody can use the link any more."""
        return shares.end(self._session, link_id)

    @on_both
    def link_accesses(self, link_id: str) -> Operation[Sequence[Access]]:
        """Who did what with a link, the newest first."""
        return shares.accesses(self._session, link_id)

    @on_both
    def open_link(self, link: str, *, password: str | None = None, name: str = "") -> Operation[None]:
        """Use somebody's share link, given as its address, instead of signing in. Paths count from what is shared."""
        yield from shares.open_link(self._session, link, password, name)
