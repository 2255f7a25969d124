"""File requests: guests send large files at the same time, see nothing of each other, and get receipts that verify."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import httpx2

from ...gateways import FILES, WAIT
from ...servers.cut_line import CutLine
from ..figures import Effort, Figure, Lines, none_of
from ..processes import TunedGateway
from .memory import MIB
from .shares import LINKS, RIGHTS, SHARE_SESSIONS

UPLOADS = "/backend/1.0.0/uploads"
GUESTS = 10
CUTS = 5
NAME = "scan.bin"
"""The same for all senders."""


@dataclass(slots=True)
class Sender:
    """A guest who sends one file, which is generated and never held in memory."""

    number: int
    client: httpx2.AsyncClient
    size: int
    name: str
    token: str = ""
    upload: str = ""
    stored: dict[str, Any] = field(default_factory=dict)

    async def begin(self, link: str) -> None:
        opened = await self.client.post(SHARE_SESSIONS, json={"link": link, "name": self.name})
        assert opened.status_code == 201, opened.text
        self.token = opened.json()["token"]
        metadata = f"filename {b64encode(NAME.encode()).decode()}"
        begun = await self.ask("POST", UPLOADS, {"Upload-Length": str(self.size), "Upload-Metadata": metadata})
        assert begun.status_code == 201, begun.text
        self.upload = begun.headers["Location"]

    async def send(self) -> None:
        """All that is left in one request, as often as the line is cut."""
        while True:
            offset = int((await self._patient_head()).headers["Upload-Offset"])
            headers = {
                "Content-Type": "application/offset+octet-stream",
                "Content-Length": str(self.size - offset),
                "Upload-Offset": str(offset),
                "Prefer": "return=representation",
            }
            try:
                answer = await self.ask("PATCH", self.upload, headers, self._content(offset))
            except httpx2.TransportError:
                continue
            if answer.status_code == 409:
                continue  # more of what the cut line had carried was still being stored
            assert answer.status_code == 200, answer.text
            (self.stored,) = answer.json()["content"]
            return

    async def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, content: Any = None
    ) -> httpx2.Response:
        own = {"Authorization": f"Bearer {self.token}", "Tus-Resumable": "1.0.0"}
        return await self.client.request(method, path, headers={**own, **(headers or {})}, content=content)

    async def _patient_head(self) -> httpx2.Response:
        while True:
            try:
                answer = await self.ask("HEAD", self.upload)
            except httpx2.TransportError:
                continue
            assert answer.status_code == 200, answer.status_code
            return answer

    async def _content(self, offset: int) -> AsyncIterator[bytes]:
        while offset < self.size:
            index, begin = divmod(offset, MIB)
            piece = self._piece(index)[begin : begin + self.size - offset]
            yield piece
            offset += len(piece)

    def _piece(self, index: int) -> bytes:
        return sha256(f"{self.number} {index}".encode()).digest() * (MIB // 32)

    def digest(self) -> str:
        whole = sha256()
        for index in range(self.size // MIB):
            whole.update(self._piece(index))
        return whole.hexdigest()


async def file_request(effort: Effort) -> list[Figure]:
    """Ten guests, all in one folder; and again, each in a folder of their own."""
    figures: list[Figure] = []
    sizes = {False: effort.of(8, 1024) * MIB, True: 8 * MIB}
    async with effort.gateway("--workers", "2") as set_:
        gateway = set_.gateway
        await asyncio.to_thread(gateway.command, "user", "set", "web", "--rights", RIGHTS)
        for own_folders, size in sizes.items():
            cuts, wrong = await _collect(effort, gateway, own_folders, size)
            what = f"{GUESTS} senders of {size // MIB} MiB{', each to an own folder' if own_folders else ''}"
            figures += [
                none_of(f"{what}: not whole, not alone, or without a valid receipt", GUESTS, wrong),
                Figure(f"{what}: cuts of one line", str(CUTS), str(cuts), cuts == CUTS),
            ]
    return figures


async def _collect(effort: Effort, gateway: TunedGateway, own_folders: bool, size: int) -> tuple[int, list[str]]:
    folder = "own" if own_folders else "one"
    owner = {"Authorization": f"Bearer {gateway.token}"}
    async with AsyncExitStack() as stack:
        line = await stack.enter_async_context(CutLine(gateway.port, CUTS, size // 20, size // 8))

        async def client(url: str) -> httpx2.AsyncClient:
            return await stack.enter_async_context(httpx2.AsyncClient(base_url=url, timeout=WAIT))

        own = await client(gateway.url)
        await own.post(f"{FILES}/{folder}?action=MKDIR", headers=owner)
        body = {"path": f"/{folder}", "kind": "request", "folderPerSender": own_folders}
        link = (await own.post(LINKS, json=body, headers=owner)).json()
        urls = [f"http://127.0.0.1:{line.port}", *[gateway.url] * (GUESTS - 1)]
        # Two of one name: they must not get one folder.
        senders = [
            Sender(number, await client(url), size, f"Guest {max(1, number)}") for number, url in enumerate(urls)
        ]
        await asyncio.gather(*(sender.begin(link["token"]) for sender in senders))
        wrong = await _tries(effort, senders)
        effort.say(f"{GUESTS} guests send {size // MIB} MiB each")
        await asyncio.gather(*(sender.send() for sender in senders))
        wrong += await _tries(effort, senders)
        listed = await own.get(f"{LINKS}/{link['id']}/accesses", headers=owner)
        keys = (await own.get("/backend/1.0.0/receipts/key", headers=owner)).text
    sent = [each for each in listed.json()["content"] if each["action"] == "upload"]
    wrong += await asyncio.to_thread(_verify, effort.new_folder(), gateway, senders, sent, keys)
    return line.cuts, wrong


async def _tries(effort: Effort, senders: list[Sender]) -> list[str]:
    """What a guest learns of the others' files, by every way that there is."""
    wrong = []
    pairs = list(zip(senders, senders[1:] + senders[:1], strict=True))
    for sender, other in pairs[: effort.of(2, GUESTS)]:
        for method in ("HEAD", "DELETE"):
            answer = await sender.ask(method, other.upload)
            if answer.status_code != 404:
                wrong.append(f"{method} of another's upload: {answer.status_code}")
        for path in (NAME, f"{other.name}/{NAME}"):
            for query in ("", "?action=LIST", "?action=STAT", "?action=DOWNLOAD"):
                there = await sender.ask("GET", f"{FILES}/{path}{query}")
                nowhere = await sender.ask("GET", f"{FILES}/nobody/nothing{query}")
                if there.status_code < 400 or there.json()["code"] != nowhere.json()["code"]:
                    wrong.append(f"GET {path}{query}: {there.status_code}")
        for address in (f"{FILES}/", f"{FILES}/?action=SEARCH&name=scan", f"{FILES}/?action=ZIP"):
            if (status := (await sender.ask("GET", address)).status_code) != 403:
                wrong.append(f"GET {address}: {status}")
    return wrong


def _verify(
    folder: Path, gateway: TunedGateway, senders: list[Sender], sent: list[dict[str, Any]], keys: str
) -> list[str]:
    """Whether the owner sees who sent what, and what the sender's receipt says of it is true."""
    wrong = []
    key, receipt = folder / "key.json", folder / "receipt"
    key.write_text(keys)
    files = {path: gateway.files / f"web{path}" for path in (each["path"] for each in sent)}
    digests = {path: _digest(file) for path, file in files.items()}
    by_digest = {digests[each["path"]]: (each["name"], each["bytes"]) for each in sent}
    for sender in senders:
        digest = sender.digest()
        if by_digest.pop(digest, None) != (sender.name, sender.size):
            wrong.append(f"{sender.name}'s file is not there, or the log has another sender")
            continue
        if sender.stored["name"] != NAME:
            wrong.append(f"{sender.name} was shown the name {sender.stored['name']}")
        receipt.write_text(sender.stored["receipt"])
        file = next(files[path] for path, found in digests.items() if found == digest)
        try:
            claims = json.loads(
                gateway.command("receipt", "verify", str(file), str(receipt), "--key", str(key), "--json")
            )
        except Exception as error:
            wrong.append(f"a receipt of {sender.name} is not valid: {error}")
            continue
        if sender.name not in claims["user"] or claims["path"] != f"/{NAME}":
            wrong.append(f"a receipt of {sender.name} for {claims}")
    if by_digest or len(sent) != len(senders):
        wrong.append(f"{len(sent)} uploads in the log, {len(by_digest)} of nobody")
    return wrong


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


LINES: Lines = {"file-request": file_request}
