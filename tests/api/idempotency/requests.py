"""Requests with an `Idempotency-Key`, and what they leave."""

import httpx2

from ..gateways import Gateway

KEY = {"Idempotency-Key": '"8e03978e-40d5-43dd-bc93-6894a57f9324"'}


async def post(gateway: Gateway, path: str, user: str = "web", **parameters: str) -> httpx2.Response:
    return await gateway.call("POST", path, user=user, headers=KEY, params=parameters)


async def upload(
    gateway: Gateway, content: bytes = b"content", user: str = "web", key: dict[str, str] = KEY, **parameters: str
) -> httpx2.Response:
    files = [("data", ("a.txt", content))]
    return await gateway.call("POST", "", user=user, headers=key, files=files, params=parameters)


def is_replay(response: httpx2.Response) -> bool:
    return response.headers.get("Idempotency-Replayed") == "true"


def content(gateway: Gateway) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in gateway.files.iterdir()}
