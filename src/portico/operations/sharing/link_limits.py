"""`LinkLimits`: what a share link allows its guests: how many files and bytes, of which types, under which names."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import msgspec
import structlog

from portico.accounts.guests import Guests
from portico.accounts.share_links import ShareLinks
from portico.accounts.throttle import network_of
from portico.drive.drive import Drive
from portico.model.entries import guess_content_type
from portico.model.errors import Forbidden, InvalidPath, PorticoError, UnsupportedMediaType
from portico.model.paths import Path
from portico.model.visible_text import is_deceptive, visible
from portico.operations.actors.actor import Actor
from portico.store.guests import Guest
from portico.store.share_links import LinkAccess, takes_no_more

log = structlog.get_logger()


class Usage(msgspec.Struct, frozen=True):
    links: ShareLinks
    guests: Guests
    now: Callable[[], int]
    """Milliseconds since the epoch, the same on all nodes."""


class LinkLimits:
    """What a link allows one guest; a no-op for signed-in users."""

    def __init__(self, shared: Usage, actor: Actor) -> None:
        self._links = shared.links
        self._guests = shared.guests
        self._now = shared.now
        self._address = actor.context.address
        self._guest = actor.guest

    @property
    def is_guest(self) -> bool:
        return self._guest is not None

    @property
    def is_upload_only(self) -> bool:
        """Whether the actor must not learn what others have stored."""
        return self._guest is not None and self._guest.is_upload_only

    @property
    def id(self) -> str:
        """The guest's id; empty for a user."""
        return self._guest.id if self._guest else ""

    @property
    def link(self) -> str | None:
        return self._guest.link.id if self._guest else None

    @property
    def network(self) -> str | None:
        return network_of(self._address)[:64] if self._guest else None

    def check_folder(self, folder: Path) -> None:
        """A sender without a folder of their own could otherwise learn of files by their names."""
        if self.is_upload_only and self._guest and self._guest.folder is None and not folder.is_root:
            raise Forbidden("This link doesn't accept folders. Send each file under its name alone.")

    async def check_names(self, drive: Drive, path: Path) -> None:
        """`InvalidPath` if the guest would add a name that deceives its readers. Folders of the owner may have one."""
        for depth, name in enumerate(path.segments if self._guest else (), 1):
            above = Path(path.segments[:depth]) if depth < len(path.segments) else None
            if is_deceptive(name) and not (above and await drive.find(above)):
                raise InvalidPath(
                    f"The name '{visible(name)}' contains invisible characters or characters that "
                    "change the reading direction. Remove them."
                )

    def most_bytes(self, limit: int) -> int:
        if self._guest is None or self._guest.link.max_bytes is None:
            return limit
        return min(limit, max(0, self._guest.link.max_bytes - self._guest.link.bytes))

    def check_file(self, name: str, size: int | None) -> None:
        """Refuse a file that the link doesn't take before it is sent. Only `counted` decides for good."""
        if self._guest is None:
            return
        link = self._guest.link
        if link.types and not any(_matches(name, kind) for kind in link.types):
            raise UnsupportedMediaType(f"This link doesn't accept '{name}'. It accepts only {', '.join(link.types)}.")
        if link.max_uploads is not None and link.uploads >= link.max_uploads:
            raise takes_no_more()
        if link.max_bytes is not None and link.bytes + (size or 0) > link.max_bytes:
            raise takes_no_more()

    async def keep(self, until: int) -> None:
        """Keep the guest's session until then: an upload has begun that may be continued."""
        if self._guest:
            await self._guests.keep(self._guest, until)

    async def reserve(self, size: int) -> None:
        if self._guest:
            await self._links.reserve_upload(self._guest.link.id, size)

    async def give_back(self, size: int) -> None:
        if self._guest:
            await asyncio.shield(self._links.give_back(self._guest.link.id, size))

    @asynccontextmanager
    async def counted(self, size: int) -> AsyncGenerator[None]:
        """Count a file that is stored inside this block; `LimitReached` if the link takes no more."""
        await self.reserve(size)
        try:
            yield
        except BaseException:
            await self.give_back(size)
            raise

    async def count_download(self, action: str, path: Path, what: str, size: int | None) -> None:
        """Count a download; `LimitReached` if the link allows no more."""
        if self._guest is not None:
            access = self._access(self._guest, action, path, size)
            await self._links.count_download(self._guest.link.id, self._guest.digest, what, access)

    async def note_upload(self, path: Path, size: int | None) -> None:
        """Note a stored file for the link's owner. If that fails, the file is stored all the same."""
        if self._guest is None:
            return
        try:
            await self._links.note(self._guest.link.id, self._access(self._guest, "upload", path, size))
        except PorticoError as error:
            log.warning("access-not-noted", link=self._guest.link.id, code=error.code, cause=error.cause)

    def _access(self, guest: Guest, action: str, path: Path, size: int | None) -> LinkAccess:
        place = guest.user.reach.place_of(path)
        seen = guest.open.owner.reach.path_of(place) if place else None
        return LinkAccess(self._now(), guest.name, self._address, action, str(seen or Path()), size)


def not_by_link() -> Forbidden:
    return Forbidden("Share links don't allow this.")


def _matches(name: str, kind: str) -> bool:
    if kind.startswith("."):
        return name.lower().endswith(kind)
    guessed = guess_content_type(name)
    return guessed == kind or (kind.endswith("/*") and guessed.startswith(kind[:-1]))
