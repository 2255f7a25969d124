"""`Shares`: the share links of one actor."""

import builtins
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import msgspec
import structlog

from portico.accounts.guests import Guests
from portico.accounts.passwords import Passwords, check_password
from portico.accounts.share_links import ShareLinks, end_of
from portico.model.errors import Forbidden, InvalidRequest, NotPossible, PorticoError, not_found
from portico.model.paths import Path
from portico.model.rights import Right
from portico.operations.actors.auditing import Change
from portico.operations.actors.tree import Tree
from portico.runtime import clock
from portico.store.journal import Journal
from portico.store.share_links import LinkAccess, LinkKind, ShareLink

__all__ = ["LinkAccess", "LinkDetails", "LinkKind", "LinkOptions", "ShareServices", "Shares"]

log = structlog.get_logger()

MAX_TITLE, MAX_NOTE, MAX_TYPES, MAX_COUNT = 200, 4000, 50, 10**15
_TYPE = re.compile(r"\.[a-z0-9][a-z0-9.+-]{0,15}|[a-z]+/(?:\*|[a-z0-9][a-z0-9.+-]{0,100})")


class LinkOptions(msgspec.Struct, kw_only=True):
    """What the owner decides of a link; what is `UNSET` stays as it is."""

    title: str | msgspec.UnsetType = msgspec.UNSET
    note: str | msgspec.UnsetType = msgspec.UNSET
    password: str | msgspec.UnsetType | None = msgspec.UNSET
    expires_at: int | msgspec.UnsetType | None = msgspec.UNSET
    """Milliseconds since the epoch."""
    max_downloads: int | msgspec.UnsetType | None = msgspec.UNSET
    max_uploads: int | msgspec.UnsetType | None = msgspec.UNSET
    max_bytes: int | msgspec.UnsetType | None = msgspec.UNSET
    types: Sequence[str] | msgspec.UnsetType = msgspec.UNSET
    ask_name: bool | msgspec.UnsetType = msgspec.UNSET
    folder_per_sender: bool | msgspec.UnsetType = msgspec.UNSET


class LinkDetails(msgspec.Struct, frozen=True):
    """A link, as its owner sees it."""

    link: ShareLink
    path: Path
    state: str
    """`open`, `used-up`, `expired` or `ended`."""
    expires_at: int | None
    """The earlier one of the link's own end and what the administrator allows."""
    token: str | None = None
    """Right after it was made or renewed; nobody can learn it later."""


class ShareServices(msgspec.Struct, frozen=True):
    journal: Journal
    links: ShareLinks
    guests: Guests
    passwords: Passwords
    now: Callable[[], int]
    """Milliseconds since the epoch, the same on all nodes."""


class Shares:
    def __init__(self, shared: ShareServices, tree: Tree) -> None:
        self._shared = shared
        self._links = shared.links
        self._actor = tree.actor
        self._tree = tree

    async def add(self, path: Path, kind: LinkKind, options: LinkOptions) -> LinkDetails:
        self._begin(makes=True)
        user, policy = self._actor.user, self._links.policy
        key = self._actor.context.key
        # The policy is about paths as users see them; those of a key begin at its folder.
        if not policy.allows(path.under(Path.parse(key.folder)) if key else path):
            raise Forbidden("Your administrator doesn't allow sharing this folder. Choose another one.")
        drive, path = await self._tree.at(path)
        if (place := self._tree.place(path)) is None:
            raise NotPossible(f"'{path}' can't be shared; share one of the folders in it.")
        self._require_rights(kind, drive.rights)
        entry = await drive.find(path)
        if entry is None:
            raise not_found(str(path))
        if kind.takes_files and not entry.is_folder:
            raise InvalidRequest("Guests can only send files to a folder. Share the folder instead.")
        values = {
            "kind": str(kind),
            "is_folder": entry.is_folder,
            "title": "",
            "note": "",
            "types": "",
            "password_hash": None,
            "expires_at": self._latest_end(),
            "ask_name": kind is LinkKind.REQUEST,
            "folder_per_sender": False,
            "max_downloads": None,
            "max_uploads": None,
            "max_bytes": None,
            **await self._values(options),
        }
        if policy.require_password and values["password_hash"] is None:
            raise InvalidRequest("Links must have a password on this gateway. Set one.")
        if not kind.takes_files and values["folder_per_sender"]:
            raise InvalidRequest(
                "Only links that accept files can have a folder for each sender. Change the link's "
                "kind, or turn the option off."
            )
        if values["folder_per_sender"] and kind is LinkKind.BOTH:
            raise InvalidRequest(
                "Only file requests can have a folder for each sender. Change the link's kind, or turn the option off."
            )
        async with self._change("share.add", path) as change:
            await change.begin()
            link, token = await self._links.add(user, place, values)
            change.line.link = link.id
        return self._details(link, token)

    async def list(self) -> list[LinkDetails]:
        self._begin()
        return [self._details(link) for link in await self._links.list(self._actor.user)]

    async def get(self, link_id: str) -> LinkDetails:
        self._begin()
        return self._details(await self._links.get(self._actor.user, link_id))

    async def change(self, link_id: str, options: LinkOptions) -> LinkDetails:
        self._begin(makes=True)
        link = await self._links.get(self._actor.user, link_id)
        self._require_rights(link.kind, self._rights_on(link))
        values = await self._values(options)
        if self._links.policy.require_password and "password_hash" in values and not values["password_hash"]:
            raise InvalidRequest("Links must have a password on this gateway. Set another one instead of removing it.")
        if values.get("folder_per_sender") and link.kind is not LinkKind.REQUEST:
            raise InvalidRequest("Only file requests can have a folder for each sender. Turn the option off.")
        if not values:
            return self._details(link)
        async with self._change("share.set", self._path(link), link.id) as change:
            change.line.changed = sorted(name.removesuffix("_hash") for name in values)
            await change.begin()
            link = await self._links.change(self._actor.user, link_id, values)
        self._shared.guests.forget()
        return self._details(link)

    async def renew(self, link_id: str) -> LinkDetails:
        """Give the link another address. Its guests have to open it again, by the new one."""
        self._begin(makes=True)
        link = await self._links.get(self._actor.user, link_id)
        self._require_rights(link.kind, self._rights_on(link))
        async with self._change("share.set", self._path(link), link.id) as change:
            change.line.changed = ["address"]
            await change.begin()
            link, token = await self._links.renew(self._actor.user, link_id)
        self._shared.guests.forget()
        return self._details(link, token)

    async def end(self, link_id: str) -> None:
        self._begin()
        link = await self._links.get(self._actor.user, link_id)
        async with self._change("share.end", self._path(link), link.id) as change:
            await change.begin()
            await self._links.end(self._actor.user, link_id)
        self._shared.guests.forget()

    async def accesses(
        self, link_id: str, size: int, before: int | None = None
    ) -> builtins.list[tuple[int, LinkAccess]]:
        """What was done with a link, the newest first, each with its number; those `before` a number."""
        self._begin()
        return await self._links.accesses(self._actor.user, link_id, size, before)

    def _begin(self, *, makes: bool = False) -> None:
        self._actor.require_unrestricted()
        if self._actor.guest is not None:
            raise Forbidden("Share links can't create other links. Sign in with an account.")
        if makes and not self._links.policy.enabled:
            raise Forbidden("Sharing is turned off on this gateway. Ask your administrator to turn it on.")
        # Users who have signed in may see and end their links, even without the right to make any.
        if (makes or self._actor.session is None) and Right.SHARE not in self._actor.user.rights:
            raise Forbidden(self._actor.right_missing.format(Right.SHARE))

    def _require_rights(self, kind: LinkKind, rights: Collection[Right]) -> None:
        """A link gives its owner's rights: a key with fewer could otherwise get them by a link of its own owner."""
        if missing := (kind.rights | {Right.SHARE}).difference(rights):
            raise Forbidden(self._actor.right_missing.format(sorted(missing)[0]))

    def _rights_on(self, link: ShareLink) -> Collection[Right]:
        return frozenset().union(*(mount.rights for _, mount in self._actor.user.reach.paths_of(link.place)))

    def _change(self, action: str, path: Path, link_id: str | None = None) -> Change:
        change = Change(self._shared.journal, self._actor.context, action, path)
        if link_id:
            change.line.link = link_id
        return change

    def _path(self, link: ShareLink) -> Path:
        return self._actor.user.reach.path_of(link.place) or Path()

    def _details(self, link: ShareLink, token: str | None = None) -> LinkDetails:
        end = end_of(link, self._links.policy)
        if link.ended_at is not None:
            state = "ended"
        elif end is not None and end <= self._shared.now():
            state = "expired"
        else:
            state = "used-up" if link.is_used_up else "open"
        return LinkDetails(link, self._path(link), state, end, token)

    def _latest_end(self) -> int | None:
        longest = self._links.policy.max_lifetime
        return None if longest is None else self._shared.now() + clock.milliseconds(longest)

    async def _values(self, options: LinkOptions) -> dict[str, Any]:
        """The columns that the options set; `InvalidRequest` if they make no sense."""
        given = {name: value for name, value in msgspec.structs.asdict(options).items() if value is not msgspec.UNSET}
        for name, most in (("title", MAX_TITLE), ("note", MAX_NOTE)):
            if name in given and len(given[name]) > most:
                raise InvalidRequest(f"The {name} can have at most {most} characters. Shorten it.")
            if name in given and "\0" in given[name]:
                raise InvalidRequest(f"The {name} contains a NUL character. Remove it.")
        for name in ("max_downloads", "max_uploads", "max_bytes"):
            if given.get(name) is not None and not 1 <= given[name] <= MAX_COUNT:
                raise InvalidRequest(
                    f"A limit must be a whole number from 1 to {MAX_COUNT}. For no limit, leave it out."
                )
        if "expires_at" in given:
            self._check_end(given["expires_at"])
        if "types" in given:
            given["types"] = " ".join(_types(given["types"]))
        if "password" in given:
            password = given.pop("password")
            if password is not None:
                check_password(password)
            given["password_hash"] = None if password is None else await self._shared.passwords.hash(password)
        return given

    def _check_end(self, end: int | None) -> None:
        latest = self._latest_end()
        if end is not None and end <= self._shared.now():
            raise InvalidRequest("The link would already have expired. Choose a later time.")
        if latest is not None and (end is None or end > latest + 60_000):
            longest = self._links.policy.max_lifetime
            raise InvalidRequest(f"Links can be valid for at most {longest} on this gateway. Choose an earlier end.")


def _types(types: Sequence[str]) -> list[str]:
    """Extensions like `.pdf`, and media types like `image/*`."""
    found = [kind.strip().lower() for kind in types if kind.strip()]
    found = [kind if "/" in kind or kind.startswith(".") else f".{kind}" for kind in found]
    if len(found) > MAX_TYPES:
        raise InvalidRequest(f"A link can list at most {MAX_TYPES} file types. List fewer.")
    for kind in found:
        if not _TYPE.fullmatch(kind):
            raise InvalidRequest(f"'{kind[:40]}' is not a valid file type; use one like .pdf or image/*.")
    return found


async def links_follow(work: Awaitable[None]) -> None:
    """Let links follow a change. If they can't, the change is done all the same."""
    try:
        await work
    except PorticoError as error:
        log.warning("links-not-moved", code=error.code, cause=error.cause)
