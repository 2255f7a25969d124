"""`DriveWalk`: everything below a folder of a drive, to be continued by another request."""

from collections.abc import Callable

from portico.drive.cursors import CursorSeal
from portico.drive.errors import with_whole_path
from portico.drive.mount_table import InnerMounts
from portico.model.entries import presentable
from portico.model.errors import InvalidCursor, NotAFolder, NotFound, NotPossible, PorticoError
from portico.model.paths import Path
from portico.providers.contract.provider import Found, Provider

_MAX_CURSOR = 6 * 1024
"""Characters, so that an address that has it as a parameter is not too long."""


class DriveWalk:
    """Paths are those of the user's tree."""

    def __init__(
        self,
        provider: Provider,
        path: Path,
        folder: Path,
        seal: CursorSeal,
        scope: str,
        cursor: str | None,
        *,
        may_lack: Callable[[Path, PorticoError], bool],
        inner: InnerMounts | None,
        reads_ahead: bool = False,
    ) -> None:
        """`path` is that of the provider, `folder` that of the user. `may_lack`: whether the storage need not have it."""
        self._folder = folder
        self._may_lack = may_lack
        self._inner = inner
        self._seal = seal
        self._scope = f"walk\0{scope}"
        self._continues = cursor is not None
        self._ended = False
        self.passed = 0
        """Entries since the walk began, in this request and those before it."""
        token = None
        if cursor is not None:
            passed, _, token = seal.open(cursor, self._scope).partition("~")
            self.passed = int(passed)
        self._walk = provider.walk(path, token)
        self._walk.reads_ahead = reads_ahead

    async def page(self, size: int) -> list[Found]:
        """As `TreeWalk.page`."""
        try:
            page = await self._walk.page(size)
        except (NotFound, NotAFolder) as error:
            if self._continues:
                raise InvalidCursor("The folder no longer exists. Start again in its parent folder.") from error
            if not self._may_lack(self._folder, error):
                raise with_whole_path(error, self._folder) from None
            self._ended, page = True, []
        self.passed += len(page)
        found = [(path.under(self._folder), presentable(entry)) for path, entry in page]
        if inner := self._inner:
            found = [(inner.spelled(path), entry) for path, entry in found if not inner.hides(path, entry)]
        return found

    async def close(self) -> None:
        await self._walk.close()

    @property
    def ended(self) -> bool:
        return self._ended or self._walk.token is None

    @property
    def can_pause(self) -> bool:
        """Whether it has a cursor, or needs none."""
        return self.ended or len(self._sealed()) <= _MAX_CURSOR

    @property
    def cursor(self) -> str | None:
        if self.ended:
            return None
        if not self.can_pause:
            raise NotPossible("The folders are nested too deeply to search from here. Start in a subfolder.")
        return self._sealed()

    def _sealed(self) -> str:
        return self._seal.close(f"{self.passed}~{self._walk.token}", self._scope)
