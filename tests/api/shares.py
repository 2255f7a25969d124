"""Guests of a gateway in this process."""

from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2

from portico.api.shares import LINKS, SHARE_SESSIONS

from .gateways import Gateway, address

SHARER = "sharer"


def metadata(**fields: str) -> str:
    return ",".join(f"{name} {b64encode(value.encode()).decode()}" for name, value in fields.items())


@dataclass
class Shared:
    """A link, and requests of guests by it."""

    gateway: Gateway
    body: dict[str, Any]

    @property
    def token(self) -> str:
        token: str = self.body["token"]
        return token

    async def open(self, **fields: Any) -> httpx2.Response:
        body = {"link": self.token, **fields}
        return await self.gateway.client.post(SHARE_SESSIONS, json=body)

    async def guest(self, **fields: Any) -> "GuestClient":
        answer = await self.open(**fields)
        assert answer.status_code == 201, answer.text
        return GuestClient(self.gateway, answer.json())

    async def show(self) -> dict[str, Any]:
        shown: dict[str, Any] = await owner(self.gateway, "GET", f"/{self.body['id']}")
        return shown

    async def accesses(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await owner(self.gateway, "GET", f"/{self.body['id']}/accesses"))["content"]
        return found

    async def end(self) -> None:
        await owner(self.gateway, "DELETE", f"/{self.body['id']}")


@dataclass
class GuestClient:
    gateway: Gateway
    visit: dict[str, Any]

    @property
    def header(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.visit['token']}"}

    async def call(
        self, method: str, path: str = "", headers: dict[str, str] | None = None, **options: Any
    ) -> httpx2.Response:
        return await self.gateway.client.request(
            method, address(path), headers={**self.header, **(headers or {})}, **options
        )

    async def put(self, path: str, content: bytes | AsyncIterator[bytes] = b"sent", **options: Any) -> httpx2.Response:
        return await self.call("PUT", path, content=content, **options)

    async def tus(
        self, method: str, where: str = "/backend/1.0.0/uploads", headers: dict[str, str] | None = None, **more: Any
    ) -> httpx2.Response:
        sent = {**self.header, "Tus-Resumable": "1.0.0", **(headers or {})}
        return await self.gateway.client.request(method, where, headers=sent, **more)


async def owner(gateway: Gateway, method: str, path: str = "", **options: Any) -> Any:
    answer = await gateway.client.request(method, LINKS + path, headers=await gateway.sign_in(SHARER), **options)
    assert answer.status_code in (200, 201, 204), answer.text
    return answer.json() if answer.content else None


async def share(gateway: Gateway, path: str = "/box", kind: str = "download", **options: Any) -> Shared:
    return Shared(gateway, await owner(gateway, "POST", json={"path": path, "kind": kind, **options}))
