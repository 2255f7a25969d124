"""Gateways as processes whose constants and limits a test may set, and the storage behind them."""

import asyncio
import json
import os
import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, cast

from sqlalchemy import update

from portico.accounts.connections import Connections
from portico.accounts.passwords import Passwords
from portico.accounts.users import Users
from portico.accounts.vault import SecretKey, Vault
from portico.model.paths import RESERVED_PREFIX, TRASH
from portico.model.paths import Path as StoragePath
from portico.providers.contract.provider import Provider
from portico.providers.contract.registry import open_provider
from portico.providers.objects.part_store import TRIALS_PREFIX
from portico.providers.s3.provider import S3Provider
from portico.settings import settings
from portico.store.database import Database
from portico.store.encrypted_columns import Sealed
from portico.store.tables import uploads
from portico.store.uploads import Uploads

from ..gateways import FILES, Gateway, wait_until
from ..servers.azure_files import Share, azure_files_server
from ..servers.azure_files.shares import Folder, Node
from ..servers.azurite import KEY as AZURITE_KEY
from ..servers.azurite import Azurite
from ..servers.gcs import shared_server as gcs_server
from ..servers.gcs.uploads import Session
from ..servers.moto_s3 import KEYS as S3_KEYS
from ..servers.moto_s3 import moto_s3
from ..servers.s3_buckets import make_buckets, plain_client
from ..servers.swift_s3 import KEYS as SWIFT_KEYS
from ..servers.swift_s3 import swift_s3
from .raw_http import Answer, Wire, ask, form, get, post

_SECRETS = ("secret-access-key", "account-key", "connection-string")

_WITH_CONSTANTS = """
import importlib, json, resource, sys
chosen = json.loads(sys.argv.pop(1))
if "descriptors" in chosen:
    resource.setrlimit(resource.RLIMIT_NOFILE, (chosen["descriptors"],) * 2)
for name, value in chosen["constants"].items():
    module, _, constant = name.rpartition(".")
    assert hasattr(importlib.import_module(module), constant), name
    setattr(importlib.import_module(module), constant, value)
if "watch" in chosen:
    import asyncio, time
    import portico.server.composition
    async def watch(file):
        while True:
            wall, used = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.002)
            used, wall = time.thread_time() - used, time.perf_counter() - wall
            if used > 0.01:
                print(used * 1000, wall * 1000, file=file, flush=True)
    async def watched(*arguments, repeat=portico.server.composition._repeat):
        task = asyncio.ensure_future(watch(open(chosen["watch"], "a")))
        try:
            await repeat(*arguments)
        finally:
            task.cancel()
    portico.server.composition._repeat = watched
from portico.cli.main import main
main()
"""


class TunedGateway(Gateway):
    """A gateway with other constants (`"portico.api.request_body.IDLE_SECONDS": 0.5`), so that no test waits for real ones."""

    def __init__(
        self,
        home: Path,
        *flags: str,
        tls: bool = False,
        environment: dict[str, str] | None = None,
        constants: Mapping[str, float] | None = None,
        descriptors: int | None = None,
        watch: Path | None = None,
    ) -> None:
        """In the file `watch` a worker notes how long its event loop did not come round: milliseconds of processor
        time, and of time."""
        super().__init__(home, *flags, tls=tls, settings=environment)
        if constants or descriptors or watch:
            chosen: dict[str, Any] = {"constants": dict(constants or {})}
            if descriptors:
                chosen["descriptors"] = descriptors
            if watch:
                chosen["watch"] = str(watch)
            self._portico = ["-c", _WITH_CONSTANTS, json.dumps(chosen), *self._portico[2:]]
        self.token = ""

    def begin(self) -> None:
        """Start, and sign `web` in unless that was done before: tokens outlive a restart."""
        self.start()
        self.token = self.token or self.login()["access_token"]

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def trust(self) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=self.certificate) if self.certificate else None

    async def ask(self, request: bytes) -> Answer:
        return await ask(self.port, request)

    async def get(self, path: str = "/") -> Answer:
        return await self.ask(get(FILES + path, self.token))

    async def names(self, path: str = "/") -> list[str]:
        """All names in a folder of any size."""
        found: list[str] = []
        cursor = ""
        while True:
            answer = await self.get(f"{path}?size=1000{cursor}")
            assert answer.status == 200, answer.body
            page = answer.json()
            found += [entry["name"] for entry in page["content"] if not entry["isCurrentFolder"]]
            if page["nextCursor"] is None:
                return found
            cursor = f"&cursor={page['nextCursor']}"

    async def put(self, name: str, content: bytes, folder: str = "/") -> int:
        return (await self.ask(post(self.token, form(name, content), folder))).status

    async def wire(self) -> Wire:
        return await Wire.to(self.port, tls=self.trust)

    def resident(self) -> int:
        """Bytes in memory of the largest worker."""
        return max(_status(worker, "VmRSS") for worker in self.workers())

    def descriptors(self) -> int:
        """How many the first worker has open."""
        return len(os.listdir(f"/proc/{self.workers()[0]}/fd"))


def _status(process: int, field: str) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return 0


class Storage(ABC):
    """Where a gateway keeps the files of `web`, as the test sees it from behind."""

    kind: str
    part: int
    """At how many bytes another part of an upload begins."""

    provider: str
    """The kind of the connection."""
    options: dict[str, str]

    def __init__(self, gateway: TunedGateway) -> None:
        self._gateway = gateway

    @abstractmethod
    async def prepare(self) -> None:
        """After the first start."""

    @abstractmethod
    async def left_over(self) -> list[str]:
        """What unfinished uploads have left."""

    @abstractmethod
    async def sweep(self) -> None:
        """Let the gateway's own clean-up run its course."""

    def has_begun(self, left: list[str]) -> bool:
        """Whether some bytes of an upload that has left this are in the storage, and the gateway knows where."""
        return bool(left)

    def forgets(self, left: str, *, outcome: str, recorded: bool) -> bool:
        """Whether the service itself drops this a week later, and no request can do so earlier.

        `recorded`: the gateway keeps a record of the upload, from its first byte on.
        """
        return False

    def age(self) -> None:  # noqa: B027
        """Let what the storage holds be two days old, where the gateway asks for the age."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Provider]:
        provider = open_provider(self.provider, self.options)
        try:
            yield provider
        finally:
            await provider.close()

    async def files(self) -> dict[str, bytes]:
        """The SHA-256 of every file at the top, by name."""
        found: dict[str, bytes] = {}
        async with self.opened() as provider:
            page = await provider.list_page(StoragePath(), 1000, None)
            for entry in page.entries:
                digest = sha256()
                if not entry.is_folder:
                    download = await provider.read(StoragePath((entry.name,)))
                    async for chunk in download.chunks:
                        digest.update(chunk)
                found[entry.name] = digest.digest()
        return found


class LocalStorage(Storage):
    kind = provider = "local"
    part = 2**20

    async def prepare(self) -> None:
        self.options = {"folder": str(self._gateway.files / "web")}

    async def left_over(self) -> list[str]:
        return self._gateway.staged

    async def sweep(self) -> None:
        """Every start of a gateway sweeps."""
        await asyncio.to_thread(wait_until, lambda: not self._gateway.staged, "the left-over is swept")


class S3Storage(Storage):
    kind = provider = "s3"
    part = 8 * 2**20

    def __init__(self, gateway: TunedGateway) -> None:
        super().__init__(gateway)
        self.bucket = f"bucket-{token_hex(8)}"
        self.options = {"bucket": self.bucket, **self.server()}

    @staticmethod
    def server() -> dict[str, str]:
        return {"endpoint-url": moto_s3(), **S3_KEYS}

    async def prepare(self, more: Mapping[str, str] | None = None) -> None:
        """With other options, the gateway may get there by another way than the test."""
        await make_buckets(self.options, [self.bucket])
        await connect(self._gateway, "s3", {**self.options, **(more or {})})

    async def left_over(self) -> list[str]:
        async with plain_client(self.options) as client:
            ours = await client.list_objects_v2(Bucket=self.bucket, Prefix=".portico~")
            unfinished = await client.list_multipart_uploads(Bucket=self.bucket)
        keys = [found["Key"] for found in (*ours.get("Contents", []), *unfinished.get("Uploads", []))]
        # A trial of the service may be under way; the sweep removes what is left of it an hour later.
        return [key for key in keys if not key.startswith((TRASH, TRIALS_PREFIX))]

    async def sweep(self) -> None:
        """What happens by itself a day later."""
        chosen = settings.load(self._gateway.home, {})
        key = SecretKey.load(chosen.secret_key_file, {})
        database = Database(chosen.database_url)
        options: dict[str, Any] = {name.replace("-", "_"): value for name, value in self.options.items()}
        provider = S3Provider(**options)
        try:
            await database.execute(update(uploads).values(expires_at=0, owned_until=0))
            records = Uploads(database, Sealed(key.derive("uploads")), "test")
            for _, upload_id in await records.expired():
                async with records.claimed(upload_id) as claim:
                    assert claim
                    assert claim.record.state
                    await (await provider.resume_upload(claim.record.state)).abandon()
                    await claim.remove()
        finally:
            await provider.close()
            await database.close()


class SwiftStorage(S3Storage):
    """Another S3, which keeps files on a disk: for what is larger than the memory."""

    kind = "s3-swift"

    @staticmethod
    def server() -> dict[str, str]:
        return {"endpoint-url": swift_s3(), **SWIFT_KEYS}


class AzureBlobStorage(Storage):
    """The service itself forgets blocks that were never committed, after a week; there is nothing of ours to sweep."""

    kind = provider = "azure-blob"
    part = 8 * 2**20

    async def prepare(self) -> None:
        server = Azurite.running()
        self.options = {
            "container": await server.new_container(),
            "account-url": server.url,
            "account-key": AZURITE_KEY,
        }
        await connect(self._gateway, "azure-blob", self.options)

    async def left_over(self) -> list[str]:
        """Hidden blobs, and all blobs with blocks that are not committed."""
        query = {"restype": "container", "comp": "list", "include": "uncommittedblobs"}
        blocks = {"comp": "blocklist", "blocklisttype": "uncommitted"}
        left = []
        async with self.opened() as provider:
            container: Any = cast("Any", provider)._service
            listed = (await container.send("GET", container.address, query)).body.decode()
            for key in re.findall("<Name>(.*?)</Name>", listed):
                if key.startswith(RESERVED_PREFIX):
                    left += [] if key.startswith(TRASH) else [key]
                elif b"<Name>" in (await container.send("GET", container.blob_url(key), blocks)).body:
                    left.append(f"blocks of {key}")
        return left

    def forgets(self, left: str, *, outcome: str, recorded: bool) -> bool:
        """Blocks at a visible key could only be dropped by writing a file there."""
        return outcome != "refused" and left.startswith("blocks of ")

    async def sweep(self) -> None:
        pass


class AzureFilesStorage(Storage):
    kind = provider = "azure-files"
    part = 4 * 2**20

    def __init__(self, gateway: TunedGateway) -> None:
        super().__init__(gateway)
        self._share = Share()
        self.options = {"share": f"share-{token_hex(8)}"}

    async def prepare(self) -> None:
        server = azure_files_server()
        server.shares[self.options["share"]] = self._share
        self.options["connection-string"] = server.connection_string
        await connect(self._gateway, "azure-files", self.options)

    @property
    def _hidden(self) -> list[Node]:
        folders = [self._share.find((f"{RESERVED_PREFIX}{name}",)) for name in ("staging", "uploads")]
        # A copy: the server's thread changes them meanwhile.
        return [each for found in folders if isinstance(found, Folder) for each in [*found.children.values()]]

    async def left_over(self) -> list[str]:
        return [node.name for node in self._hidden]

    def age(self) -> None:
        for node in self._hidden:
            node.written = node.changed = datetime.now(UTC) - timedelta(days=2)

    async def sweep(self) -> None:
        pass


class GcsStorage(Storage):
    kind = provider = "gcs"
    part = 8 * 2**20

    def __init__(self, gateway: TunedGateway) -> None:
        super().__init__(gateway)
        self._bucket = gcs_server().make_bucket(f"bucket-{token_hex(8)}")

    async def prepare(self) -> None:
        server = gcs_server()
        self.options = {
            "bucket": self._bucket.name,
            "endpoint-url": server.address,
            "service-account-file": server.write_key_file(self._gateway.home / "key.json"),
        }
        await connect(self._gateway, "gcs", self.options)

    async def left_over(self) -> list[str]:
        hidden = [key for key in [*self._bucket.objects] if key.startswith(RESERVED_PREFIX)]
        return [*(key for key in hidden if not key.startswith(TRASH)), *self._sessions]

    @property
    def _sessions(self) -> dict[str, Session]:
        sessions = [each for each in [*gcs_server().sessions.values()] if each.bucket is self._bucket]
        return {f"session of {each.described['name']}": each for each in sessions if each.stored is None}

    def has_begun(self, left: list[str]) -> bool:
        """Until its first byte, the gateway may not have recorded the address of a session, which cannot be listed."""
        sessions = self._sessions
        return any(each not in sessions or sessions[each].content.size for each in left)

    def forgets(self, left: str, *, outcome: str, recorded: bool) -> bool:
        """Only a process that died knew the address of the session."""
        return outcome == "killed" and not recorded and left.startswith("session of ")

    async def sweep(self) -> None:
        pass


STORAGES: Mapping[str, type[Storage]] = {
    storage.kind: storage
    for storage in (LocalStorage, S3Storage, SwiftStorage, AzureBlobStorage, AzureFilesStorage, GcsStorage)
}


@asynccontextmanager
async def accounts(gateway: Gateway) -> AsyncIterator[tuple[Connections, Users]]:
    """What `portico connection` and `portico user` work with, without a process for each command."""
    chosen = settings.load(gateway.home, {})
    database, passwords = Database(chosen.database_url), Passwords()
    try:
        vault = Vault(SecretKey.load(chosen.secret_key_file, {}))
        yield Connections(database, vault), Users(database, passwords)
    finally:
        passwords.close()
        await database.close()


async def connect(gateway: Gateway, kind: str, options: Mapping[str, str]) -> None:
    """Let `web` have all of this storage."""
    secrets = {name: value for name, value in options.items() if name in _SECRETS}
    plain = {name: value for name, value in options.items() if name not in _SECRETS}
    async with accounts(gateway) as (connections, users):
        await connections.add("store", kind, plain, secrets)
        await users.change("web", connection="store", root="/")
