"""The base class of both clients."""

import os
import ssl
from typing import Self

from portico.client.auth import profiles
from portico.client.auth.session import AuthSession
from portico.client.auth.tokens import Credentials, MemoryTokenStore, Tokens, TokenStore
from portico.client.files import OnConflict
from portico.client.http.origin import Origin
from portico.client.transfers import uploads
from portico.client.transfers.progress import Progress, Received, Resumed
from portico.client.transfers.resumable_upload import ResumableUploads
from portico.client.transfers.upload_records import UploadsInFolder, UploadsInMemory

LocalPath = str | os.PathLike[str]


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
            self._session,
            UploadsInFolder(resume_folder, username or "") if resume_folder else UploadsInMemory(),
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

    def _upload_options(
        self,
        on_conflict: OnConflict | None,
        verify: bool | int,
        progress: Progress | None,
        stored: Received | None = None,
        resumed: Resumed | None = None,
        *,
        times: bool,
        receipts: bool,
        resume: bool,
    ) -> uploads.Options:
        resumable = self._resumable if resume else None
        return uploads.Options(on_conflict, verify, progress, stored, times, receipts, resumable, resumed)
