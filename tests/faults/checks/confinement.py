"""A user stays inside the root: generated paths, with canaries in sibling roots."""

import os
from collections.abc import Iterator
from random import Random
from typing import Any, cast

from portico.drive.cursors import CursorSeal
from portico.drive.drive import OnConflict
from portico.model.errors import InvalidPath, NotFound, PorticoError
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS
from portico.providers.contract.provider import Provider
from portico.providers.local.provider import LocalProvider

from ...conformance.actions import content, put
from ...gateways import FILES
from ...recorded_drive import RecordedDrive
from ..figures import Effort, Figure, Lines, none_of
from ..fuzzing import FRAGMENTS
from ..raw_http import Wire, get

CANARY, OWN = b"the canary's song", b"al's own"
CANARIES = ("alice/canary", "alice/sub/canary", "alicecanary", "alice.txt", "canary", "secret/canary")
OUR_OWN = {".portico~staging", ".portico~locks"}
ROOT = Path(("al",))


def paths(tries: int, seed: int) -> Iterator[bytes]:
    """Raw paths as a client may write them: hostile pieces and plain ones, with slashes between them or without."""
    random = Random(seed)
    for _ in range(tries):
        pieces = random.choices(FRAGMENTS, k=random.randint(1, 6))
        yield random.choice((b"/", b"/", b"")).join(pieces)


class Spy:
    """A provider that has nothing, and notes where it is asked for it."""

    kind, identity, max_page_size, max_file_size = "spy", "spy", 1000, 2**63

    def __init__(self) -> None:
        self.places: list[Path] = []

    def __getattr__(self, name: str) -> Any:
        async def called(*arguments: object, **_: object) -> None:
            self.places += [argument for argument in arguments if isinstance(argument, Path)]
            raise NotFound("There is nothing.")

        return called


def _parsed(raw: bytes) -> Path | None:
    try:
        return Path.from_request(raw)
    except InvalidPath:
        return None


async def parsed(effort: Effort) -> list[Figure]:
    """Every path, read as a request's path and asked of a provider by the drive of `al`."""
    tries = effort.of(5_000, 1_000_000)
    spy = Spy()
    drive = RecordedDrive(cast("Provider", spy), ROOT, DEFAULT_RIGHTS, CursorSeal(b"k" * 32))
    wrong: list[str] = []
    taken = 0
    for raw in paths(tries, 1):
        if (path := _parsed(raw)) is None:
            continue
        taken += 1
        spy.places.clear()
        for ask in (drive.stat(path), drive.delete(path)):
            try:
                await ask
            except PorticoError:
                pass
        outside = [place for place in spy.places if not ROOT.holds(place) or {"..", ".", ""} & {*place.segments}]
        if outside:
            wrong.append(f"{raw!r} → {outside[0]}")
    return [
        none_of("paths that reach out of the root", tries, wrong),
        Figure("of them, taken as paths", "> 0", f"{taken:,}", taken > 0),
    ]


async def on_disk(effort: Effort) -> list[Figure]:
    """The same, looked for and changed on a real disk, with links out of the root among the names."""
    tries = effort.of(600, 100_000)
    top = effort.new_folder()
    provider = LocalProvider(str(top))
    whole = RecordedDrive(provider, Path(), DEFAULT_RIGHTS, CursorSeal(b"k" * 32))
    drive = RecordedDrive(provider, ROOT, DEFAULT_RIGHTS, CursorSeal(b"k" * 32))
    wrong: list[str] = []
    try:
        for path in CANARIES:
            await put(whole, path, CANARY)
        for number, raw in enumerate(paths(tries, 2)):
            if number % 50 == 0:
                await _refill(drive, top)
            if (found := _parsed(raw)) is None:
                continue
            if {"..", ".", ""} & {*found.segments} or any("/" in name for name in found.segments):
                wrong.append(f"{raw!r} → {found}")  # not tried: it would change the disk of the machine
                continue
            wrong += await _tried(drive, found, raw)
        left = [path for path in CANARIES if (top / path).read_bytes() != CANARY]
        strange = sorted({*os.listdir(top)} - {Path.parse(path).segments[0] for path in CANARIES} - {"al"})
    finally:
        await provider.close()
    return [
        none_of("paths on a disk that show or change what is outside", tries, wrong + left),
        none_of("names that came up beside the root", tries, [name for name in strange if name not in OUR_OWN]),
    ]


async def _refill(drive: RecordedDrive, top: os.PathLike[str]) -> None:
    for path in ("own", "sub/own", "canary"):
        try:
            await put(drive, path, OWN)
        except PorticoError:  # one of the tries has made a folder of a file, or a file of a folder
            await drive.delete(Path(Path.parse(path).segments[:1]), recursive=True)
            await put(drive, path, OWN)
    for name, target in (("link", "../alice"), ("sub/link", "../../alice/canary")):
        place = os.path.join(top, "al", name)
        if not os.path.lexists(place):
            os.symlink(target, place)


async def _tried(drive: RecordedDrive, path: Path, raw: bytes) -> list[str]:
    wrong = []
    try:
        if await content(drive, path) != OWN:
            wrong.append(f"{raw!r} was read")
    except PorticoError:
        pass
    for change in (
        lambda: put(drive, path, OWN, OnConflict.REPLACE),
        lambda: drive.copy(path, Path(("copied",)), OnConflict.REPLACE),
        lambda: drive.move(path, Path(("sub", "moved")), OnConflict.REPLACE),
        lambda: drive.delete(path, recursive=True),
    ):
        try:
            await change()
        except PorticoError:
            pass
    return wrong


async def over_http(effort: Effort) -> list[Figure]:
    """The same over a raw connection to a real gateway."""
    tries = effort.of(300, 20_000)
    wrong: list[str] = []
    async with effort.gateway() as set_:
        gateway = set_.gateway
        (gateway.files / "web-site").mkdir(parents=True)
        (gateway.files / "web-site" / "canary").write_bytes(CANARY)
        (gateway.files / "canary").write_bytes(CANARY)
        wire = await gateway.wire()
        for raw in paths(tries, 3):
            target = raw.replace(b" ", b"%20").replace(b"#", b"%23").replace(b"alice", b"web-site")
            request = get(FILES + "/", gateway.token).replace(b"/ HTTP", b"/" + target + b" HTTP", 1)
            await wire.send(request)
            answer = await wire.answer()
            if answer.status not in (200, 400, 404, 409) or CANARY in answer.body:
                wrong.append(f"{raw!r}: {answer.status}")
            if answer.header("connection") == "close" or (answer.status == 400 and not answer.body):
                await wire.close()
                wire = await Wire.to(gateway.port)
        await wire.close()
    return [none_of("paths over HTTP that show a canary or get another status", tries, wrong)]


LINES: Lines = {"confinement-paths": parsed, "confinement-disk": on_disk, "confinement-http": over_http}
