"""`WriteCondition`: which file an upload may replace."""

from datetime import UTC, datetime

import msgspec

from portico.drive.drive import OnConflict
from portico.model.entries import Entry
from portico.model.errors import Changed

ANY = "*"
"""Instead of an ETag: whatever version there is."""


def modified(entry: Entry) -> datetime:
    return (entry.modified or datetime.fromtimestamp(0, UTC)).replace(microsecond=0)


class WriteCondition(msgspec.Struct):
    """`on_conflict` and `if_match` leave the decision to the storage, which makes it when the file is committed."""

    on_conflict: OnConflict | None = None
    if_match: str | None = None
    match: frozenset[str] | None = None
    """ETags, one of which the file must have."""
    none_match: frozenset[str] | None = None
    """ETags, none of which it may have."""
    unmodified_since: datetime | None = None
    only_new: bool = False
    """Whether it holds only while there is no file."""

    @classmethod
    def of(
        cls,
        on_conflict: OnConflict | None,
        match: frozenset[str] | None,
        none_match: frozenset[str] | None,
        unmodified_since: datetime | None,
    ) -> "WriteCondition":
        condition = cls(on_conflict, None, match, none_match, unmodified_since)
        if match is not None:
            condition.on_conflict = OnConflict.REPLACE
            if len(match) == 1 and ANY not in match and not none_match:
                (condition.if_match,) = match  # the storage compares
                condition.match = None
        elif none_match == frozenset({ANY}):
            condition._require_none()
            condition.none_match = condition.unmodified_since = None
        return condition

    def _require_none(self) -> None:
        self.on_conflict, self.only_new = OnConflict.FAIL, True

    @property
    def needs_entry(self) -> bool:
        """Whether `settle` has to be called."""
        return any(each is not None for each in (self.match, self.none_match, self.unmodified_since))

    def settle(self, entry: Entry | None) -> None:
        """Compare with what is there; from then on, only that may be replaced."""
        if self.match is not None and not (entry and _names(self.match, entry)):
            raise Changed("The file is not in a version that the condition names. Check it again.")
        if entry and self.unmodified_since and modified(entry) > self.unmodified_since:
            raise Changed("The file has changed since the date in the condition. Check it again.")
        if entry and self.none_match is not None and _names(self.none_match, entry):
            raise Changed("The file is in a version that the condition excludes. Check it again.")
        self._bind(entry.etag if entry else None)

    def settle_as(self, settled: str) -> None:
        """As `settle`, after an earlier attempt with this `if_match`. What is there now may be of that attempt."""
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


def _names(tags: frozenset[str], entry: Entry) -> bool:
    return ANY in tags or (entry.etag is not None and entry.etag in tags)
