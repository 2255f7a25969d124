"""A folder that moves from one storage to another while the gateway is killed: each file is at one of the two, whole."""

import asyncio
import random
import time
from hashlib import sha256
from typing import Any
from uuid import uuid4

import httpx2

from portico.model.errors import NotFound
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS, format_rights
from portico.providers.contract.provider import Provider
from portico.providers.contract.registry import SECRET_OPTIONS, open_provider

from ...conformance.harness import PROVIDERS
from ...gateways import FILES, Gateway
from ..figures import Effort, Figure, Lines, none_of
from .trash_services import Request

_RANDOM = random.Random(27)
_CONTENT = {f"{number % 3}/{number}": _RANDOM.randbytes(2000 * (number + 1)) for number in range(12)}
_CONTENT["large"] = _RANDOM.randbytes(9 * 2**20)
"""More than a part of any service."""
_KINDS = ("s3", "azure-blob")


async def _files(provider: Provider) -> dict[str, str]:
    """The digests of all files below `tree`."""
    found: dict[str, str] = {}
    walk = provider.walk(Path(("tree",)))
    while True:
        try:
            page = await walk.page(1000)
        except NotFound:
            return {}
        for path, entry in page:
            if not entry.is_folder:
                download = await provider.read(path.under(Path(("tree",))))
                found[str(path)[1:]] = sha256(b"".join([chunk async for chunk in download.chunks])).hexdigest()
        if walk.token is None:
            return found


async def killed_moves(effort: Effort) -> list[Figure]:
    kills = effort.of(2, 50)
    wanted = {name: sha256(content).hexdigest() for name, content in _CONTENT.items()}
    wrong: list[str] = []
    folder = effort.new_folder()
    gateway = Gateway(folder / "home", "--workers", "1")
    await asyncio.to_thread(gateway.start)
    providers: dict[str, Any] = {}
    at_source = at_target = 0
    try:
        async with PROVIDERS["s3"](Request(folder)) as s3, PROVIDERS["azure-blob"](Request(folder)) as blob:  # type: ignore[arg-type]
            for kind, harness in zip(_KINDS, (s3, blob), strict=True):
                given: dict[str, str] = harness.open.args[1]  # type: ignore[attr-defined]
                providers[kind] = open_provider(kind, given)
                await asyncio.to_thread(_mount, gateway, kind, given)
            source, target = _KINDS
            with gateway.signed_in() as client:
                for name, content in _CONTENT.items():
                    client.put(f"{FILES}/{source}/tree/{name}", content=content).raise_for_status()
            longest = 0.5
            for number in range(kills):
                key = str(uuid4())
                move = asyncio.create_task(asyncio.to_thread(_move, gateway, source, target, key))
                await asyncio.sleep(_RANDOM.random() * longest)
                await asyncio.to_thread(gateway.kill)
                await asyncio.wait({move})
                here, there = [await _files(providers[kind]) for kind in (source, target)]
                at_source += len(here)
                at_target += len(there)
                wrong += [f"{number}: {name} is nowhere" for name in wanted if name not in here and name not in there]
                for side in (here, there):
                    wrong += [f"{number}: {name} is damaged" for name in side if side[name] != wanted[name]]
                await asyncio.to_thread(gateway.start)
                began = asyncio.get_running_loop().time()
                status = await asyncio.to_thread(_move, gateway, source, target, key)
                longest = max(longest, asyncio.get_running_loop().time() - began)
                here, there = [await _files(providers[kind]) for kind in (source, target)]
                if (status, here, there) != (201, {}, wanted):
                    wrong.append(
                        f"{number}: repeated, it answered {status}, and {len(here)} + {len(there)} files are there"
                    )
                source, target = target, source
    finally:
        if gateway.process and gateway.process.poll() is None:
            gateway.kill()
        for provider in providers.values():
            await provider.close()
    effort.say(f"after {kills} kills, {at_source} files were at the source and {at_target} at the target")
    return [none_of(f"{kills} kills during a move between storages: files lost or damaged", kills, wrong)]


def _mount(gateway: Gateway, kind: str, given: dict[str, str]) -> None:
    words = [f"--option={name}={value}" for name, value in given.items() if name not in SECRET_OPTIONS]
    secrets = "".join(f"{name}={value}\n" for name, value in given.items() if name in SECRET_OPTIONS)
    gateway.command("connection", "add", kind, "--kind", kind, *words, "--secret-stdin", stdin=secrets)
    rights = format_rights(DEFAULT_RIGHTS).replace(" ", ",")
    gateway.command("mount", "add", "web", f"/{kind}", "--connection", kind, "--folder", "/", "--rights", rights)


def _move(gateway: Gateway, source: str, target: str, key: str) -> int:
    """The status of the answer; 0 without one. A request that still runs is asked for again."""
    headers, parameters = {"Idempotency-Key": key}, {"action": "MOVE", "target": f"/{target}/tree"}
    try:
        with gateway.signed_in() as client:
            while True:
                answer = client.post(f"{FILES}/{source}/tree", params=parameters, headers=headers)
                if answer.status_code != 409 or answer.json()["code"] != "request-running":
                    return answer.status_code
                time.sleep(0.2)
    except httpx2.TransportError:
        return 0


LINES: Lines = {"mount-kills": killed_moves}
