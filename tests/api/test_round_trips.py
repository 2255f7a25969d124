"""How many calls of a storage service an operation makes, and how many of them one after another.

The figures are those of the table in docs/performance.md. After a change that needs fewer, put the printed lines there.
"""

import pathlib
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from secrets import token_hex
from typing import Any

import httpx2
import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from portico.api.listing import LINES
from portico.api.shares import LINKS, SHARE_SESSIONS
from portico.model.rights import Right
from portico.providers.objects.versions import ObjectVersions

from ..servers.azure_blob import AzureBlobServer, Container
from ..servers.azure_files import AzureFilesServer, Share
from ..servers.gcs import shared_server as gcs_server
from ..servers.moto_s3 import KEYS, moto_buckets, moto_s3
from ..servers.round_trips import RoundTrips, Work
from .conftest import never_sweep, settings_of
from .gateways import PASSWORD, Gateway, address, running
from .tus.client import Tus, metadata

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "performance.md"
TITLE = "## Calls of a storage service"


@asynccontextmanager
async def _s3(_: pathlib.Path, work: Work, versioning: bool = False) -> AsyncIterator[tuple[RoundTrips, Any]]:
    bucket = f"bucket-{token_hex(8)}"
    with moto_buckets(bucket):
        if versioning:
            s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[bucket].versioning_status = "Enabled"
        async with RoundTrips(_port(moto_s3()), work) as proxy:
            yield proxy, {"bucket": bucket, "endpoint-url": f"http://127.0.0.1:{proxy.port}", **KEYS}


@asynccontextmanager
async def _azure_blob(_: pathlib.Path, work: Work, versioning: bool = False) -> AsyncIterator[tuple[RoundTrips, Any]]:
    server = AzureBlobServer().start()
    server.containers["files"] = Container(versioning=versioning)
    async with RoundTrips(_port(server.url), work) as proxy:
        server.url = f"http://127.0.0.1:{proxy.port}"  # sources of copies name the address that the client sees
        yield proxy, {"container": "files", "connection-string": server.connection_string}
    server.stop()


@asynccontextmanager
async def _azure_files(_: pathlib.Path, work: Work) -> AsyncIterator[tuple[RoundTrips, Any]]:
    server = AzureFilesServer().start()
    server.shares["files"] = Share()
    async with RoundTrips(_port(server.url), work) as proxy:
        server.url = f"http://127.0.0.1:{proxy.port}"
        yield proxy, {"share": "files", "connection-string": server.connection_string}
    server.stop()


@asynccontextmanager
async def _gcs(folder: pathlib.Path, work: Work, versioning: bool = False) -> AsyncIterator[tuple[RoundTrips, Any]]:
    server = gcs_server()
    bucket = server.make_bucket(f"bucket-{token_hex(8)}").name
    server.buckets[bucket].versioning = versioning
    async with RoundTrips(_port(server.address), work) as proxy:
        key = server.write_key_file(folder / "key.json")
        yield proxy, {"bucket": bucket, "endpoint-url": f"http://127.0.0.1:{proxy.port}", "service-account-file": key}
    del server.buckets[bucket]


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


VERSIONED = " with versions"
STORAGES: dict[str, Callable[..., Any]] = {
    "S3": _s3,
    f"S3{VERSIONED}": partial(_s3, versioning=True),
    "Azure Blob": _azure_blob,
    f"Azure Blob{VERSIONED}": partial(_azure_blob, versioning=True),
    "Azure Files": _azure_files,
    "GCS": _gcs,
    f"GCS{VERSIONED}": partial(_gcs, versioning=True),
}


class Counted:
    """The operations of one user, and what each costs: `5 in 3` are five calls in three round trips."""

    def __init__(self, gateway: Gateway, proxy: RoundTrips, user: str) -> None:
        self._gateway = gateway
        self._proxy = proxy
        self._user = user
        self._costs: dict[str, str] = {}

    async def call(self, method: str, path: str, **options: Any) -> httpx2.Response:
        answer = await self._gateway.call(method, path, user=self._user, **options)
        assert answer.status_code < 300, answer.text
        return answer

    async def count(self, what: str, request: Awaitable[Any]) -> Any:
        calls, round_trips = len(self._proxy.calls), self._proxy.count
        result = await request
        await self._proxy.at_rest()
        calls, round_trips = len(self._proxy.calls) - calls, self._proxy.count - round_trips
        self._costs[what] = f"{calls}" if calls == round_trips else f"{calls} in {round_trips}"
        return result

    async def run(self, *, with_reads: bool) -> dict[str, str]:
        call = self.call
        await call("PUT", "reports/2026/a", content=b"content")
        await call("PUT", "reports/2026/a", content=b"content")
        await call("DELETE", "reports/2026/a")  # whether the storage keeps versions is known from now on
        for name in ("reports/a.txt", "other/a.txt", "other/plain", "last/a.txt"):
            await call("PUT", name, content=b"content")
        if with_reads:
            await self._read()
        await self._change()
        return self._costs

    async def _read(self) -> None:
        call, count = self.call, self.count
        await count("list a folder", call("GET", "reports"))
        await count("list it again", call("GET", "reports"))
        await count("download a file", call("GET", "other/a.txt"))
        await count("download a file without an extension", call("GET", "other/plain"))
        await count("a range of a file", call("GET", "other/a.txt", headers={"Range": "bytes=1-3"}))
        await count("… for a guest with a link", await self._guest("other", "a.txt"))
        await count("`HEAD` of a file", call("HEAD", "other/a.txt"))
        await count("`HEAD` without an extension", call("HEAD", "other/plain"))
        await self._walk()
        await count("`action=STAT` of a file", call("GET", "other/a.txt", params={"action": "STAT"}))

    async def _walk(self) -> None:
        for number in range(6):
            await self.call("PUT", f"tree/{number}/in/a", content=b"content")
        tree = self.call("GET", "tree", params={"recursive": "true"}, headers={"Accept": LINES})
        answer = await self.count("list a tree of 12 folders", tree)
        assert answer.text.count('"REGULAR"') == 6

    async def _change(self) -> None:
        call, count = self.call, self.count
        await count("upload a new file", call("PUT", "other/new.txt", content=b"content"))
        await count("replace a file", call("PUT", "other/new.txt", content=b"more content"))
        form = [("data", (f"{number}.txt", b"content")) for number in range(10)]
        await count("upload 10 files in a form", call("POST", "other", files=form))
        await count("upload a small file by tus", self._tus())
        await count("copy a file", call("POST", "other/a.txt", params={"action": "COPY", "target": "/last/b.txt"}))
        await count("move a file", call("POST", "other/a.txt", params={"action": "MOVE", "target": "/last/c.txt"}))
        await count("make a folder", call("POST", "other/folder", params={"action": "MKDIR"}))
        deleted = await count("delete a file", call("DELETE", "last/c.txt"))
        if trash_id := deleted.headers.get("X-Trash-Id"):
            await count("restore it", self._restore(trash_id))

    async def _guest(self, folder: str, name: str) -> Awaitable[httpx2.Response]:
        """A download of a range by somebody who has just opened a link."""
        client, owner = self._gateway.client, await self._gateway.sign_in(self._user)
        link = await client.post(LINKS, headers=owner, json={"path": f"/{folder}", "kind": "download"})
        guest = await client.post(SHARE_SESSIONS, json={"link": link.json()["token"]})
        headers = {"Authorization": f"Bearer {guest.json()['token']}", "Range": "bytes=1-3"}
        return client.get(address(name), headers=headers)

    async def _tus(self) -> None:
        tus = Tus(self._gateway, self._user)
        answer = await tus.call(
            "POST",
            content=b"content",
            Upload_Length="7",
            Upload_Metadata=metadata(filename="tus.txt", folder="/other"),
            Content_Type="application/offset+octet-stream",
        )
        assert answer.status_code == 201, answer.text

    async def _restore(self, trash_id: str) -> None:
        answer = await self._gateway.client.post(
            f"/backend/1.0.0/trash/{trash_id}",
            headers=await self._gateway.sign_in(self._user),
            params={"action": "RESTORE"},
        )
        assert answer.status_code == 201, answer.text


Costs = dict[str, dict[str, list[str]]]
"""By the operation and the kind, with a trash and without."""


async def test_calls_and_round_trips_are_as_documented(
    first_home: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.server.composition._repeat", never_sweep)
    monkeypatch.setattr(ObjectVersions, "trusted_seconds", 3600.0)
    costs: Costs = defaultdict(lambda: defaultdict(list))
    work = Work()
    with work.watched():
        for retention in ("30d", "0"):
            home = tmp_path / retention
            shutil.copytree(first_home, home)
            async with running(settings_of(home, **{"trash.retention": retention})) as gateway:
                for name, open_storage in STORAGES.items():
                    is_versioned = name.endswith(VERSIONED)
                    if retention == "0" and is_versioned:  # as without versions
                        continue
                    async with open_storage(home, work) as (proxy, options):
                        user = await _user(gateway, name, options)
                        counted = Counted(gateway, proxy, user)
                        for what, cost in (await counted.run(with_reads=retention != "0" and not is_versioned)).items():
                            costs[what][name].append(cost)
    found = [_row(what, costs[what]) for what in costs]
    assert found == _documented(), "\n".join(["what was counted:", *found])


async def _user(gateway: Gateway, storage: str, options: dict[str, str]) -> str:
    kind, _, more = storage.lower().partition(" with ")
    kind = kind.replace(" ", "-")
    name = f"{kind}-{more}"
    await gateway.connections.add(name, kind, options, {})
    await gateway.users.add(name, PASSWORD, connection=name, root="/web", rights=frozenset(Right))
    return name


def _row(what: str, costs: dict[str, list[str]]) -> str:
    cells = ("; ".join(dict.fromkeys(costs[name])) or "same" for name in STORAGES)
    return f"| {what} | {' | '.join(cells)} |"


def _documented() -> list[str]:
    _, _, section = DOCUMENT.read_text().partition(f"{TITLE}\n")
    return section.partition("|---|")[2].partition("\n\n")[0].splitlines()[1:]
