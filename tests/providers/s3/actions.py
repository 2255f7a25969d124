"""What the tests do with a provider, and how they pick a call out of many."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from xml.sax.saxutils import escape

from portico.model.entries import Entry
from portico.model.paths import Path
from portico.providers.contract.uploads import WriteOptions
from portico.providers.s3.provider import S3Provider

from ...servers.proxy import Call, FaultProxy, Reply

PIECE = 256 * 1024


def at(text: str) -> Path:
    return Path.parse(text)


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), PIECE):
        yield content[start : start + PIECE]


async def put(provider: S3Provider, path: str, content: bytes = b"x", *, replace: bool = True) -> Entry:
    return await provider.write(at(path), pieces(content), "text/x-own", WriteOptions(replace=replace))


async def content(provider: S3Provider, path: str) -> bytes:
    download = await provider.read(at(path))
    async with aclosing(download.chunks) as chunks:
        return b"".join([chunk async for chunk in chunks])


def listings(proxy: FaultProxy) -> list[Call]:
    return [call for call in proxy.calls if "list-type" in call.query]


# Requests


def listing(call: Call) -> bool:
    return "list-type" in call.query


def part(call: Call) -> bool:
    return call.method == "PUT" and "partNumber" in call.query


def whole(call: Call) -> bool:
    """The file's one PUT."""
    return call.method == "PUT" and not call.query and ".portico~" not in call.path and not copying(call)


def copying(call: Call) -> bool:
    return "x-amz-copy-source" in call.headers


def beginning(call: Call) -> bool:
    return call.method == "POST" and "uploads" in call.query


def completing(call: Call) -> bool:
    return call.method == "POST" and "uploadId" in call.query


def aborting(call: Call) -> bool:
    return call.method == "DELETE" and "uploadId" in call.query


# Answers


def said(status: int, body: str = "", headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(status, {"Content-Type": "application/xml", **(headers or {})}, body.encode())


def error(code: str, **more: str) -> str:
    fields = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in more.items())
    return f"<Error><Code>{code}</Code><Message>RAW TEXT OF THE SERVICE</Message>{fields}</Error>"


def page(keys: Iterable[str] = (), prefixes: Iterable[str] = (), token: str = "", truncated: bool | None = None) -> str:
    contents = "".join(
        f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
        f"<ETag>&quot;e&quot;</ETag><Size>7</Size></Contents>"
        for key in keys
    )
    common = "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in prefixes)
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    known = bool(token) if truncated is None else truncated
    return (
        f"<ListBucketResult><IsTruncated>{str(known).lower()}</IsTruncated>{more}{contents}{common}</ListBucketResult>"
    )
