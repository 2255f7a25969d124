"""How much of a large file is sent in one request."""

PART = 64 * 1024 * 1024
"""Below the limit of usual proxies, and large enough for the time between parts not to count."""
CHECKED_PART = 8 * 1024 * 1024
"""What the gateway holds in memory until it has compared the checksum."""
SMALLEST_PART = 1024 * 1024


class PartSize:
    """Smaller after failures, and larger again after successes."""

    def __init__(self, most: int, *, checked: bool) -> None:
        """`checked`: whether the parts have checksums."""
        self.most = most
        """The largest part that was not refused."""
        self._checked = checked
        self.bytes = self._largest

    @property
    def _largest(self) -> int:
        return min(self.most, CHECKED_PART) if self._checked else self.most

    @property
    def is_smallest(self) -> bool:
        return self.bytes <= SMALLEST_PART

    def grow(self) -> None:
        self.bytes = min(self.bytes * 2, self._largest)

    def shrink(self) -> None:
        self.bytes = max(self.bytes // 2, SMALLEST_PART)

    def refuse(self) -> None:
        """Note that a proxy lets no part of this size through."""
        self.shrink()
        self.most = self.bytes
