"""Conditional requests (RFC 9110, 13): what the headers ask of a file's version, and whether it is so."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec
from starlette.requests import Request

from portico.model.entries import Entry
from portico.model.errors import Changed, InvalidRequest
from portico.operations.files.files import OnConflict


def joined(request: Request, name: str) -> str | None:
    """A list may be spread over several lines (RFC 9110, 5.3)."""
    lines = request.headers.getlist(name)
    return ", ".join(lines) if lines else None


def names(condition: str, etag: str | None) -> bool:
    """Whether the list names this version. A weak tag never does."""
    return condition.strip() == "*" or (etag is not None and f'"{etag}"' in _members(condition))


def modified(entry: Entry) -> datetime:
    return (entry.modified or datetime.fromtimestamp(0, UTC)).replace(microsecond=0)


def date(text: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text) if text else None
    except (ValueError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def _members(condition: str) -> list[str]:
    return [member.strip() for member in condition.split(",")]


class WriteCondition(msgspec.Struct):
    """What an upload may replace. `on_conflict` and `if_match` leave the decision to the storage, which makes it when the
    file is committed."""

    on_conflict: OnConflict | None
    if_match: str | None = None
    match: str | None = None
    none_match: str | None = None
    unmodified_since: datetime | None = None
    only_new: bool = False
    """Whether it holds only while there is no file."""

    @classmethod
    def of(cls, request: Request, on_conflict: OnConflict | None) -> "WriteCondition":
        match, none_match = joined(request, "If-Match"), joined(request, "If-None-Match")
        since = None if match is not None else date(request.headers.get("If-Unmodified-Since"))
        condition = cls(on_conflict, None, match, none_match, since)
        if match is not None:
            if on_conflict not in (None, OnConflict.REPLACE):
                raise InvalidRequest(
                    f"If-Match replaces a file, and onConflict={on_conflict} does not; send one of them."
                )
            condition._require(match)
        elif none_match is not None and none_match.strip() == "*":
            condition._require_none()
            condition.none_match = condition.unmodified_since = None
        return condition

    def _require(self, match: str) -> None:
        self.on_conflict = OnConflict.REPLACE
        tags = _members(match)
        if len(tags) == 1 and len(tags[0]) > 2 and tags[0][0] == tags[0][-1] == '"' and not self.none_match:
            self.if_match = tags[0][1:-1]  # the storage compares
            self.match = None

    def _require_none(self) -> None:
        self.on_conflict, self.only_new = OnConflict.FAIL, True

    @property
    def needs_entry(self) -> bool:
        """Whether `settle` has to be called."""
        return any(each is not None for each in (self.match, self.none_match, self.unmodified_since))

    def settle(self, entry: Entry | None) -> None:
        """Compare with what is there; from then on, only that may be replaced."""
        if self.match is not None and (entry is None or not names(self.match, entry.etag)):
            raise Changed("There is no file in the version that If-Match names; look at it again.")
        if entry and self.unmodified_since and modified(entry) > self.unmodified_since:
            raise Changed("The file has changed since the date of If-Unmodified-Since; look at it again.")
        if entry and self.none_match is not None and names(self.none_match.replace("W/", ""), entry.etag):
            raise Changed("The file is of a version that If-None-Match excludes; look at it again.")
        self._bind(entry.etag if entry else None)

    @property
    def settled(self) -> str:
        """What `settle` decided, for `settle_as`."""
        return self.if_match or ""

    def settle_as(self, settled: str) -> None:
        """As `settle`, which an earlier attempt of this request has done. What is there now may be of that attempt."""
        self._bind(settled or None)

    def _bind(self, etag: str | None) -> None:
        if self.on_conflict in (None, OnConflict.REPLACE):
            if etag is None:
                self._require_none()
            else:
                self.on_conflict, self.if_match = OnConflict.REPLACE, etag

    @property
    def makes_new(self) -> bool | None:
        """Whether the file that it lets be stored is a new one; None if that is open."""
        if self.if_match is not None:
            return False
        return True if self.only_new else None
