"""What each service says while it behaves: a name that begins with `file` is a file, one with `tree` a folder of files.

Nothing is remembered: what was written is acknowledged, and what is asked about is answered by its name.
"""

import json
from collections.abc import Mapping
from itertools import count
from secrets import token_hex

from .server import Ask, Attack, Hostile, Say, Voice

CONTENT = b"Portico was here to see whether it can write.\n"
"""Of every file: what the connection test expects to read."""
STALE = "2020-01-01T00:00:00.000Z"
_DATE = "Wed, 01 Jan 2020 00:00:00 GMT"
_NOTES = ".portico~uploads/"
_STAGING = ".portico~staging"
_turns = count()


def _is_file(key: str, service: Hostile) -> bool:
    name = key.rpartition("/")[2]
    return name.startswith("file") or (service.written and name.startswith(".portico~probe"))


def _is_tree(path: str) -> bool:
    return path.rstrip("/").rpartition("/")[2].startswith("tree")


def _held(prefix: str) -> list[str]:
    """The keys below a prefix."""
    if prefix.startswith(_NOTES):
        return [f"{_NOTES}note"]
    return [f"{prefix}file-1", f"{prefix}file-2"] if not prefix or _is_tree(prefix) else []


def _token() -> str:
    """One of two, in turns: never the one that was sent."""
    return f"token-{next(_turns) % 2}"


def s3(ask: Ask, service: Hostile) -> Say:
    key = ask.path.partition("/")[2]
    size = "-5" if service.raves else str(len(CONTENT))
    described = {
        "ETag": '"e"',
        "Last-Modified": "never" if service.raves else _DATE,
        "Content-Type": "text/plain",
    }
    if "list-type" in ask.query:
        keys = _held(ask.query["prefix"])[: service.page(ask.query["max-keys"])]
        entries = "".join(
            f"<Contents><Key>{key}</Key><LastModified>{STALE}</LastModified><Size>{size}</Size></Contents>"
            for key in keys
        )
        more = service.walks
        token = f"<NextContinuationToken>{_token()}</NextContinuationToken>" if more else ""
        return Say(
            body=f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{entries}</ListBucketResult>"
        )
    if "uploads" in ask.query and ask.method == "POST":
        return Say(body="<R><UploadId>upload</UploadId></R>")
    if "uploads" in ask.query:
        return Say(body="<ListMultipartUploadsResult></ListMultipartUploadsResult>")
    if ask.method == "POST":
        return Say(body="<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>")
    if ask.method == "PUT":
        copied = (
            "<CopyObjectResult><ETag>e</ETag></CopyObjectResult>"
            if "x-amz-copy-source" in ask.headers
            else ""
        )
        return Say(headers={"ETag": '"e"', "Date": _DATE}, body=copied)
    if ask.method == "DELETE":
        return Say(204)
    if key.startswith(_NOTES):
        return Say(headers=described, body=json.dumps({"key": "file", "upload": "upload"}))
    if not _is_file(key, service):
        return Say(404)
    return Say(headers=described, body=CONTENT)


def azure_blob(ask: Ask, service: Hostile) -> Say:
    key = ask.path.partition("/")[2].partition("/")[2]
    date = "never" if service.raves else _DATE
    described = {"ETag": '"e"', "Last-Modified": date, "Content-Type": "text/plain", "Date": _DATE}
    if ask.query.get("comp") == "list":
        keys = _held(ask.query.get("prefix", ""))
        blobs = "".join(
            f"<Blob><Name>{key}</Name><Properties><Content-Length>{10**30 if service.raves else 4}</Content-Length>"
            f"<Last-Modified>{_DATE}</Last-Modified></Properties></Blob>"
            for key in keys[: service.page(ask.query["maxresults"])]
        )
        marker = _token() if service.walks else ""
        return Say(
            body=f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>"
        )
    if ask.method == "PUT":
        return Say(201, {**described, "x-ms-copy-status": "success"})
    if ask.method == "DELETE":
        return Say(202)
    if not _is_file(key, service):
        return Say(404, {"x-ms-error-code": "BlobNotFound"})
    return Say(headers=described, body=CONTENT)


def azure_files(ask: Ask, service: Hostile) -> Say:
    path = ask.path.partition("/")[2].partition("/")[2]
    absent = Say(404, {"x-ms-error-code": "ResourceNotFound"})
    date = "never" if service.raves else _DATE
    described = {
        "ETag": '"e"',
        "Last-Modified": date,
        "Date": _DATE,
        "x-ms-file-id": token_hex(4),
        "x-ms-file-last-write-time": date if service.raves else STALE,
        "x-ms-copy-status": "success",
    }
    is_folder = not path or _is_tree(path) or _STAGING in path
    if ask.query.get("comp") == "list":
        if not is_folder:
            return absent
        size = 10**30 if service.raves else 4
        entries = "".join(
            f"<File><Name>{name}</Name><Properties><Content-Length>{size}</Content-Length>"
            f"<LastWriteTime>{STALE}</LastWriteTime></Properties></File>"
            for name in ("file-1", "file-2")[: service.page(ask.query["maxresults"])]
        )
        marker = _token() if service.walks else ""
        return Say(
            headers=described,
            body=f"<EnumerationResults><Entries>{entries}</Entries><NextMarker>{marker}</NextMarker></EnumerationResults>",
        )
    if ask.method == "PUT":
        return Say(201, described)
    if ask.query.get("restype") == "directory":
        if ask.method == "DELETE" and "tree" in path:
            return Say(409, {"x-ms-error-code": "DirectoryNotEmpty"})
        if ask.method == "DELETE":
            return Say(202)
        return Say(headers=described) if is_folder else absent
    if not (_is_file(path, service) or _STAGING in path):
        return absent
    if ask.method == "DELETE":
        return Say(202)
    return Say(headers=described, body=CONTENT)


def gcs(ask: Ask, service: Hostile) -> Say:
    _, _, key = ask.path.partition("/o/")
    size = "-5" if service.raves else str(len(CONTENT))
    if "/rewriteTo/" in ask.path:
        return _json({"kind": "storage#rewriteResponse", "done": True})
    if ask.method == "GET" and not key:
        keys = _held(ask.query.get("prefix", ""))[: service.page(ask.query["maxResults"])]
        items = [{"name": key, "size": size, "updated": STALE} for key in keys]
        more = {"nextPageToken": _token()} if service.walks else {}
        return _json({"kind": "storage#objects", "items": items, **more})
    if ask.method == "POST" and ask.query.get("uploadType") == "resumable":
        astray = service.attack is Attack.FOREIGN_SESSION
        host = service.trap.url if service.trap and astray else service.url
        return Say(headers={"Location": f"{host}/session"})
    if ask.method == "PUT":
        placed = ask.headers["content-range"].removeprefix("bytes ")
        if placed.endswith("/*"):
            return Say(308, {"Range": f"bytes=0-{placed.partition('-')[2].partition('/')[0]}"})
        return _object("file", placed.rpartition("/")[2])
    if ask.method == "POST":
        return _object("file", size)
    if ask.method == "DELETE":
        return Say(204)
    if not _is_file(key, service):
        return Say(404)
    if ask.query.get("alt") == "media":
        date = "never" if service.raves else _DATE
        generation = "many" if service.raves else "1"
        return Say(headers={"X-Goog-Generation": generation, "Last-Modified": date}, body=CONTENT)
    return _object(key, size, "never" if service.raves else STALE)


def _object(name: str, size: str, updated: str = STALE) -> Say:
    return _json(
        {"kind": "storage#object", "name": name, "size": size, "updated": updated, "generation": "1"}
    )


def _json(value: object) -> Say:
    return Say(headers={"Content-Type": "application/json"}, body=json.dumps(value))


VOICES: Mapping[str, Voice] = {"s3": s3, "azure-blob": azure_blob, "azure-files": azure_files, "gcs": gcs}


def options(kind: str, url: str) -> dict[str, str]:
    """A connection to the hostile service, which takes every signature."""
    key = "c2VjcmV0IGtleSBvZiB0aGUgdGVzdHM="
    return {
        "s3": {"bucket": "bucket", "endpoint-url": url, "region": "us-east-1"},
        "azure-blob": {"container": "box", "account-url": f"{url}/account", "account-key": key},
        "azure-files": {"share": "share", "account-url": f"{url}/account", "account-key": key},
        "gcs": {"bucket": "bucket", "endpoint-url": url, "anonymous": "true"},
    }[kind]
