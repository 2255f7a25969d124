"""Share links: by them, people without an account reach a file or a folder of a user's tree.

The address of a link is random, and stored only as a SHA-256. What a guest may do is never more than what the owner may do
at that moment: every look at a link is a look at its owner, too.
"""

import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from portico.accounts.credentials import digest_of
from portico.model.errors import NotFound
from portico.model.paths import Path, Place
from portico.runtime import clock
from portico.store.database import Database
from portico.store.share_links import LinkRecords, OpenLink, ShareLink
from portico.store.users import User

_TOKEN_BYTES = 24


class SharePolicy(msgspec.Struct, frozen=True):
    enabled: bool = True
    max_lifetime: timedelta | None = None
    require_password: bool = False
    paths: tuple[Path, ...] = ()
    """What may be shared, as users see it; without any, everything."""

    def allows(self, path: Path) -> bool:
        return not self.paths or any(allowed.holds(path) for allowed in self.paths)


def usable(found: OpenLink | None, policy: SharePolicy, now: int) -> OpenLink | None:
    """The link and its owner, if it can be used now."""
    if found is None or not policy.enabled:
        return None
    link, owner, shared = found.link, found.owner, found.shared
    if (
        link.ended_at is not None
        or ((end := end_of(link, policy)) is not None and end <= now)
        or not owner.may_act(now)
        or shared is None
        or not policy.allows(shared[0])
    ):
        return None
    return found


def end_of(link: ShareLink, policy: SharePolicy) -> int | None:
    """When the link ends by itself."""
    if policy.max_lifetime is None:
        return link.expires_at
    longest = link.created_at + clock.milliseconds(policy.max_lifetime)
    return longest if link.expires_at is None else min(longest, link.expires_at)


def no_such_link() -> NotFound:
    """The same for an unknown link, one that has ended, and one whose owner may not share any more."""
    return NotFound("This link doesn't exist or has ended. Ask the person who sent it to you for a new one.")


class ShareLinks(LinkRecords):
    def __init__(self, database: Database, policy: SharePolicy) -> None:
        super().__init__(database)
        self.policy = policy

    async def add(self, user: User, place: Place, values: Mapping[str, Any]) -> tuple[ShareLink, str]:
        """A new link of the user, and its token. `values` are columns."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        row = {
            "id": secrets.token_hex(8),
            "user_id": user.id,
            "connection": place.connection,
            "digest": digest_of(token),
            "path": str(place.path),
            "downloads": 0,
            "uploads": 0,
            "bytes": 0,
            "created_at": self._database.now(),
            **values,
        }
        return await self.insert(row), token

    async def renew(self, user: User, link_id: str) -> tuple[ShareLink, str]:
        """Give the link another address. Those who know the former one, and its guests, can do nothing with it any more."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        return await self.change(user, link_id, {"digest": digest_of(token)}), token

    async def find(self, token: str) -> OpenLink | None:
        return usable(await self.by_digest(digest_of(token)), self.policy, self._database.now())
