"""An S3 bucket of any number of empty objects that can be listed, and nothing else."""

from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote
from xml.sax.saxutils import escape

from aiohttp import web

_MAX_KEYS = 1000


class ManyKeys:
    """ListObjectsV2 as S3 answers it: keys in the order of their bytes, at most 1,000 with their common prefixes."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = sorted(keys, key=str.encode)
        self.port = 0
        self.calls = 0

    @property
    def options(self) -> dict[str, str]:
        return {
            "bucket": "bucket",
            "endpoint-url": f"http://127.0.0.1:{self.port}",
            "access-key-id": "key",
            "secret-access-key": "secret",
        }

    async def answer(self, request: web.Request) -> web.Response:
        self.calls += 1
        if request.method != "GET" or request.path.strip("/") != "bucket":
            return _refused(404, "NoSuchKey") if request.method != "PUT" else _refused(403, "AccessDenied")
        if "uploads" in request.query:
            return _xml("<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>")
        if request.query.get("list-type") != "2":
            return _refused(400, "InvalidArgument")
        return self._page(request.query)

    def _page(self, query: Mapping[str, str]) -> web.Response:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        limit = min(_MAX_KEYS, int(query.get("max-keys", _MAX_KEYS)))
        after = query.get("continuation-token") or query.get("start-after", "")
        position = max(
            bisect_left(self._keys, prefix.encode(), key=str.encode),
            bisect_right(self._keys, after.encode(), key=str.encode) if after else 0,
        )
        keys: list[str] = []
        folders: list[str] = []
        last = ""
        while position < len(self._keys) and self._keys[position].startswith(prefix):
            key = self._keys[position]
            name, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            folder = prefix + name + found
            if found and after.startswith(folder):  # it was on an earlier page
                position = self._behind(folder)
                continue
            if len(keys) + len(folders) == limit:
                return self._listed(query, keys, folders, last)
            if found:
                folders.append(folder)
                last, position = folder, self._behind(folder)
            else:
                keys.append(key)
                last, position = key, position + 1
        return self._listed(query, keys, folders, "")

    def _behind(self, prefix: str) -> int:
        """The position of the first key that is greater than all with the prefix."""
        return bisect_left(self._keys, prefix[:-1].encode() + bytes([ord(prefix[-1]) + 1]), key=str.encode)

    def _listed(self, query: Mapping[str, str], keys: list[str], folders: list[str], token: str) -> web.Response:
        encoded = query.get("encoding-type") == "url"

        def text(key: str) -> str:
            return escape(quote(key, safe="/") if encoded else key)

        contents = "".join(
            f"<Contents><Key>{text(key)}</Key><LastModified>2020-11-02T10:00:00.000Z</LastModified>"
            '<ETag>"d41d8cd98f00b204e9800998ecf8427e"</ETag><Size>0</Size></Contents>'
            for key in keys
        )
        prefixes = "".join(f"<CommonPrefixes><Prefix>{text(each)}</Prefix></CommonPrefixes>" for each in folders)
        encoding = "<EncodingType>url</EncodingType>" if encoded else ""
        more = f"<NextContinuationToken>{escape(token)}</NextContinuationToken>" if token else ""
        return _xml(
            f"<ListBucketResult><IsTruncated>{str(bool(token)).lower()}</IsTruncated>{encoding}{contents}{prefixes}{more}"
            "</ListBucketResult>"
        )


def _xml(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="application/xml")


def _refused(status: int, code: str) -> web.Response:
    return _xml(f"<Error><Code>{code}</Code></Error>", status)


@asynccontextmanager
async def many_keys(keys: Sequence[str]) -> AsyncIterator[ManyKeys]:
    service = ManyKeys(keys)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", service.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        service.port = runner.addresses[0][1]
        yield service
    finally:
        await runner.cleanup()
