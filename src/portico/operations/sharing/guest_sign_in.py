"""`GuestSignIn`: a link is opened, and somebody without an account becomes a guest."""

import re
import secrets
import unicodedata
from collections.abc import Iterator
from datetime import datetime

import msgspec

from portico.accounts.guests import Guests
from portico.accounts.share_links import ShareLinks, end_of
from portico.drive.connection_pool import ConnectionPool
from portico.model.entries import Entry
from portico.model.errors import InvalidRequest, LimitReached, MoreNeeded, PorticoError
from portico.model.paths import Path, name_flaw
from portico.model.reach import Reach
from portico.model.rights import Right
from portico.model.visible_text import is_deceptive
from portico.observability.audit import DONE
from portico.operations.actors.request_context import RequestContext
from portico.operations.actors.tree import require_target
from portico.store.encrypted_columns import Confidential
from portico.store.guests import Guest
from portico.store.journal import Journal
from portico.store.share_links import LinkKind, OpenLink

MAX_NAME = 100
MAX_FOLDER_BYTES = 200
"""Of the name of a sender's folder, without a number: local disks hold 255, some services no more characters than that."""
NUMBERED = 10
"""How many senders of one name get a folder with a number; those of the others have a random suffix."""
_UNWANTED = re.compile(r'[\x00-\x1f\x7f-\x9f/\\:*?"<>|]+')
"""Some services cannot hold these in the name of a folder."""
_JOINERS = dict.fromkeys(map(ord, "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"))
"""Parts of names in Persian and Hindi, and of some emoji."""
_BLANKS = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters of Korean and Braille that are shown as nothing."""


class Visit(Confidential, msgspec.Struct, frozen=True):
    """What a guest gets to know of a link."""

    token: str
    expires_at: datetime
    owner: str
    kind: LinkKind
    title: str
    note: str
    name: str
    """What is shared: of a file or a download. Empty for a file request."""
    file: Entry | None
    """If it is a link to a file."""
    rights: frozenset[str]
    reach: Reach
    """For a guest who cannot list, only the outermost mount."""
    types: tuple[str, ...]
    link_expires_at: int | None
    has_own_folder: bool
    files_left: int | None
    bytes_left: int | None


class GuestSignIn:
    def __init__(self, links: ShareLinks, guests: Guests, pool: ConnectionPool, journal: Journal) -> None:
        self._links = links
        self._guests = guests
        self._pool = pool
        self._journal = journal

    async def is_open(self, context: RequestContext, token: str) -> bool:
        """Whether there is such a link now; `TooManyRequests` if too many were asked for that there are not."""
        if await self._links.find(token) is not None:
            return True
        await self._guests.count_unknown(context.address)
        return False

    async def open(self, context: RequestContext, token: str, password: str | None = None, name: str = "") -> Visit:
        """Open a link. `MoreNeeded` if it asks for what was not given; `NotFound` if there is no such link."""
        found = await self._links.find(token)
        if found is not None:
            context.user, context.link = found.owner.name, found.link.id
            needs = ["password"] if found.password_hash and not password else []
            needs += ["name"] if found.link.ask_name and not name.strip() else []
            if needs:
                raise MoreNeeded(f"This link needs a {' and a '.join(needs)}. Send it with the request.", needs=needs)
        line = context.audit_line("share.open")
        try:
            found = await self._guests.check_password(found, password or "", context.address)
        except PorticoError as error:
            if error.code == "wrong-password":
                line.outcome = error.code
                await self._journal.record(line)
            raise
        if found.link.is_used_up:
            raise LimitReached("This link has reached its limit. Ask the person who sent it to you for a new one.")
        await require_target(self._pool, found)
        given = _checked(name) if found.link.ask_name else ""
        text = await self._added(found, given, context.address)
        guest = await self._guests.guest(text)
        context.guest = guest.name
        line = context.audit_line("share.open", outcome=DONE)
        await self._journal.record(line)
        return await self._visit(text, guest)

    async def _added(self, found: OpenLink, name: str, address: str) -> str:
        if not found.link.folder_per_sender:
            token = await self._guests.add(found, name, address, None)
            assert token
            return token
        drive = await self._pool.of(found.limited_owner)
        for folder in _folders(name):
            if await drive.find(Path((folder,))) is None and (
                token := await self._guests.add(found, name, address, folder)
            ):
                return token
        raise AssertionError("there is no end of names")

    async def _visit(self, token: str, guest: Guest) -> Visit:
        link, file, user = guest.link, None, guest.user
        lists = Right.LIST in user.rights and not guest.only_file
        if guest.only_file:
            file = await (await self._pool.of(guest.open.limited_owner)).find(guest.only_file)
        shown = "" if guest.is_upload_only or not guest.open.shared else guest.open.shared[0].name
        return Visit(
            token,
            guest.expires_at,
            guest.open.owner.name,
            link.kind,
            link.title,
            link.note,
            shown,
            file,
            frozenset(map(str, user.rights)),
            user.reach if lists else Reach(mount for mount in user.reach.mounts if mount.path.is_root),
            link.types,
            end_of(link, self._links.policy),
            guest.folder is not None,
            None if link.max_uploads is None else max(0, link.max_uploads - link.uploads),
            None if link.max_bytes is None else max(0, link.max_bytes - link.bytes),
        )


def _checked(name: str) -> str:
    name = unicodedata.normalize("NFC", " ".join(name.split()))
    if not 0 < len(name) <= MAX_NAME:
        raise InvalidRequest(f"The name must have 1 to {MAX_NAME} characters. Choose another one.")
    if is_deceptive(name) or not name.translate(_JOINERS).isprintable():
        raise InvalidRequest("The name contains characters that can't be displayed. Choose another one.")
    if not any(map(_is_visible, name)):
        raise InvalidRequest("The name contains only invisible characters. Choose another one.")
    return name


def _is_visible(character: str) -> bool:
    """By itself, unlike a joiner or an accent."""
    return unicodedata.category(character)[0] in "LNPS" and character not in _BLANKS


def _folders(name: str) -> Iterator[str]:
    """Names for the folder of a sender, in the order in which they are tried."""
    short = name.encode()[:MAX_FOLDER_BYTES].decode(errors="ignore")
    plain = _UNWANTED.sub("_", short).strip(". ") or "guest"
    if name_flaw(plain):
        plain = f"_{plain}"
    yield plain
    for number in range(1, NUMBERED):
        yield f"{plain} ({number})"
    while True:  # each that is tried is a request to the storage
        yield f"{plain} ({secrets.token_hex(3)})"
