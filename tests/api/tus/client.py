"""A client of tus for tests."""

import random
from base64 import b64encode
from typing import Any

import httpx2

from portico.api.tus import MEDIA_TYPE, UPLOADS

from ..gateways import Gateway

CONTENT = random.Random(14).randbytes(300_000)


def metadata(**values: str) -> str:
    return ",".join(f"{key} {b64encode(value.encode()).decode()}" for key, value in values.items())


class Tus:
    """A client that sends what it is asked to, right or wrong."""

    def __init__(self, gateway: Gateway, user: str = "web") -> None:
        self._gateway = gateway
        self._user = user

    async def call(self, method: str, address: str = UPLOADS, content: Any = None, **headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        signed = await self._gateway.sign_in(self._user)
        fixed = {"Tus-Resumable": "1.0.0", **signed, **named}
        return await self._gateway.client.request(method, address, headers=fixed, content=content)

    async def create(self, size: int | None = len(CONTENT), name: str = "a.bin", **more: str) -> str:
        length = {"Upload-Defer-Length": "1"} if size is None else {"Upload-Length": str(size)}
        answer = await self.call("POST", Upload_Metadata=metadata(filename=name, **more), **length)
        assert answer.status_code == 201, answer.text
        return answer.headers["Location"]

    async def patch(self, address: str, offset: int, content: Any, **headers: str) -> httpx2.Response:
        return await self.call("PATCH", address, content, Upload_Offset=str(offset), Content_Type=MEDIA_TYPE, **headers)

    async def offset(self, address: str) -> int:
        answer = await self.call("HEAD", address)
        assert answer.status_code == 200, answer.headers
        assert answer.headers["Cache-Control"] == "no-store"
        return int(answer.headers["Upload-Offset"])


def code(answer: httpx2.Response) -> str:
    return str(answer.json()["code"])
