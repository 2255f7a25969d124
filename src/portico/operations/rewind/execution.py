"""`Execution`: carries out the steps of a rewind. Each is a change of its own in the journal, so that a rewind can be undone.

The steps of a run may be repeated: a process may have died in the middle. What was done already is left as it is.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import takewhile

from portico.accounts.share_links import ShareLinks
from portico.drive.drive import OnConflict
from portico.model.entries import Entry
from portico.model.errors import FolderNotEmpty, NotFound, NotPossible, PorticoError
from portico.model.paths import Path
from portico.model.versions import Version, version_of
from portico.operations.actors.auditing import Change
from portico.operations.actors.request_context import RequestContext
from portico.operations.files.transfer import Transfer
from portico.operations.rewind.places import NEEDED, Places, Spot
from portico.operations.rewind.steps import Step
from portico.operations.sharing.links import links_follow
from portico.runtime.tasks import for_each
from portico.store.journal import Journal
from portico.store.trash import Trashed, TrashRecords

_AT_ONCE = 16

CHANGED = "changed"
"""Something else is there by now, which the journal does not know of."""
FAILED = "failed"


class NotAsLeft(Exception):
    """The content is no longer what the actor left."""


class Execution:
    def __init__(
        self,
        journal: Journal,
        places: Places,
        trash: TrashRecords,
        links: ShareLinks,
        context: RequestContext,
        stepped: Callable[[], None] = lambda: None,
    ) -> None:
        """`stepped`: called after each step."""
        self._journal = journal
        self._places = places
        self._trash = trash
        self._links = links
        self._context = context
        self._stepped = stepped
        self._repeats = False

    async def carry_out(self, steps: Sequence[Step], *, repeats: bool = False) -> list[tuple[Step, str, str]]:
        """Steps of one run; those that were not carried out, with a word and a sentence that say why. `repeats`: an earlier
        process may have carried out some of them."""
        failed: list[tuple[Step, str, str]] = []
        self._repeats = repeats

        async def attempt(step: Step) -> None:
            try:
                await self._step(step)
            except NotAsLeft:
                failed.append((step, CHANGED, ""))
            except PorticoError as error:
                failed.append((step, FAILED, error.detail))
            self._stepped()

        await for_each(attempt, steps, _AT_ONCE)
        return failed

    async def _step(self, step: Step) -> None:
        if step.action == "show":
            await self._show(step.location[2])
            return
        if step.action == "move":
            assert step.source
            await self._move(*await self._places.pair(step.source, step.location), step)
            return
        spot = await self._places.at(step.location, *NEEDED[step.action])
        there = await spot.drive.find(spot.path)
        match step.action:
            case "remove" if there:
                _check(there, step.left)
                await self._delete(spot, spot.path, recursive=True)
            case "tidy" if there and there.is_folder and not spot.path.is_root:
                with suppress(FolderNotEmpty):
                    await self._delete(spot, Path(spot.path.segments, as_folder=True))
            case "make":
                async with self._change("mkdir", spot.path) as change:
                    await spot.drive.make_folder(spot.path, change=change)
            case "restore":
                await self._restore(spot, step, there)

    async def _show(self, trash_id: str) -> None:
        if record := await self._kept(trash_id):
            await (await self._places.at((record.connection,))).drive.trash.show(record)

    async def _kept(self, trash_id: str) -> Trashed | None:
        record = (await self._trash.find_all([trash_id])).get(trash_id)
        return record if record and self._places.takes(record) else None

    async def _delete(self, spot: Spot, path: Path, *, recursive: bool = False) -> None:
        if recursive and not spot.drive.trash.is_on:
            raise NotPossible("The trash is turned off, so this would be gone for good.")
        async with self._change("delete", path) as change:
            await spot.drive.delete(path, change=change, recursive=recursive)
        if change.trash_ids:
            await links_follow(self._links.deleted(spot.place, is_folder=recursive, trash_id=change.trash_ids[-1]))

    async def _restore(self, spot: Spot, step: Step, there: Entry | None) -> None:
        assert step.source
        record = await self._kept(step.source[2])
        if record is None:
            self._done_before()
            return
        on_conflict = OnConflict.FAIL
        if there and not there.is_folder:
            if self._repeats and not await spot.drive.trash.find(spot.drive.trash.place_of(record.id)):
                return
            _check(there, step.left)
            if record.is_folder:
                await self._delete(spot, spot.path, recursive=True)
            else:
                on_conflict = OnConflict.REPLACE
        elif there and record.is_folder and (step.merges or self._repeats):
            on_conflict = OnConflict.REPLACE
        elif there:
            await self._make_way(spot)
        async with self._change("restore", spot.path) as change:
            try:
                await spot.drive.restore(record, on_conflict, change=change, target=spot.path)
            except NotFound:
                if not (step.merges or self._repeats):
                    raise
        await links_follow(self._links.restored(record.id, spot.place.path, spot.place.path))

    async def _move(self, source: Spot, target: Spot, step: Step) -> None:
        found = await source.drive.find(source.path)
        if found is None:
            if not step.merges:
                self._done_before()
            return
        if step.left:
            _check(found, step.left)
        on_conflict = OnConflict.FAIL
        if there := await target.drive.find(target.path):
            if there.is_folder == found.is_folder and (step.merges or (self._repeats and found.is_folder)):
                on_conflict = OnConflict.REPLACE
            else:
                await self._make_way(target)
        async with self._change("move", source.path, target.path) as change:
            transfer = Transfer(source.drive, source.path, target.drive, target.path, on_conflict, removes=True)
            await transfer.run(None, change)
        await links_follow(self._links.moved(source.place, target.place, is_folder=found.is_folder))

    def _done_before(self) -> None:
        """What was to be brought back is not there."""
        if not self._repeats:
            raise NotAsLeft

    async def _make_way(self, spot: Spot) -> None:
        """Only for an empty folder."""
        try:
            await self._delete(spot, Path(spot.path.segments, as_folder=True))
        except (FolderNotEmpty, NotFound) as error:
            raise NotAsLeft from error

    @asynccontextmanager
    async def _change(self, action: str, path: Path, target: Path | None = None) -> AsyncIterator[Change]:
        async with Change(self._journal, self._context, action, path, target) as change:
            yield change


def _check(there: Entry, left: Version | None) -> None:
    if left is None or not version_of(there).is_same(left):
        raise NotAsLeft


def first_run(steps: Sequence[Step], at_most: int) -> Sequence[Step]:
    """Those that may be carried out at the same time, and once more if a process dies meanwhile."""
    first = steps[0]
    if first.action not in ("remove", "restore", "show"):
        return steps[:1]
    kind = first.action, len(first.location)
    return [*takewhile(lambda step: (step.action, len(step.location)) == kind, steps[:at_most])]
