"""Helpers of the upload tests."""

from collections.abc import Iterable

from .gateways import MULTIPART, Answer, Gateway, Step, address

OLD = b"the old content"


def stored(gateway: Gateway) -> dict[str, bytes]:
    """Every file of the user, by its path."""
    return {
        str(file.relative_to(gateway.files)): file.read_bytes() for file in gateway.files.rglob("*") if file.is_file()
    }


async def send(gateway: Gateway, steps: Iterable[Step], *more: tuple[str, str], path: str = "") -> Answer:
    """Upload step by step."""
    credentials = (await gateway.sign_in()).items()
    framing = [] if "Content-Length" in dict(more) else [("Transfer-Encoding", "chunked")]
    headers = [*credentials, ("Content-Type", MULTIPART), *framing, *more]
    return await gateway.raw("POST", address(path).encode(), headers, steps)
