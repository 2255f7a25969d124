"""How each service responds while it does not attack.

It is stateless: a name that begins with `file` is a file, one with `tree` is a folder of files, and writes are only
acknowledged.
"""

import json
from collections.abc import Mapping
from itertools import count
from secrets import token_hex

from .server import Attack, Behaviour, Hostile, Request, Response

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


def s3(request: Request, service: Hostile) -> Response:
    key = request.path.partition("/")[2]
    size = "-5" if service.raves else str(len(CONTENT))
    described = {"ETag": '"e"', "Last-Modified": "never" if service.raves else _DATE, "Content-Type": "text/plain"}
    if "list-type" in request.query:
        keys = _held(request.query["prefix"])[: service.page(request.query["max-keys"])]
        entries = "".join(
            f"<Contents><Key>{key}</Key><LastModified>{STALE}</LastModified><Size>{size}</Size></Contents>"
            for key in keys
        )
        more = service.walks
        token = f"<NextContinuationToken>{_token()}</NextContinuationToken>" if more else ""
        return Response(
            body=f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{entries}</ListBucketResult>"
        )
    if "uploads" in request.query and request.method == "POST":
        return Response(body="<R><UploadId>upload</UploadId></R>")
    if "uploads" in request.query:
        return Response(body="<ListMultipartUploadsResult></ListMultipartUploadsResult>")
    if request.method == "POST":
        return Response(body="<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>")
    if request.method == "PUT":
        copied = "<CopyObjectResult><ETag>e</ETag></CopyObjectResult>" if "x-amz-copy-source" in request.headers else ""
        return Response(headers={"ETag": '"e"', "Date": _DATE}, body=copied)
    if request.method == "DELETE":
        return Response(204)
    if key.startswith(_NOTES):
        return Response(headers=described, body=json.dumps({"key": "file", "upload": "upload"}))
    if not _is_file(key, service):
        return Response(404)
    return Response(headers=described, body=CONTENT)


def azure_blob(request: Request, service: Hostile) -> Response:
    key = request.path.partition("/")[2].partition("/")[2]
    date = "never" if service.raves else _DATE
    described = {"ETag": '"e"', "Last-Modified": date, "Content-Type": "text/plain", "Date": _DATE}
    if request.query.get("comp") == "list":
        keys = _held(request.query.get("prefix", ""))
        blobs = "".join(
            f"<Blob><Name>{key}</Name><Properties><Content-Length>{10**30 if service.raves else 4}</Content-Length>"
            f"<Last-Modified>{_DATE}</Last-Modified></Properties></Blob>"
            for key in keys[: service.page(request.query["maxresults"])]
        )
        marker = _token() if service.walks else ""
        return Response(
            body=f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>"
        )
    if request.method == "PUT":
        return Response(201, {**described, "x-ms-copy-status": "success"})
    if request.method == "DELETE":
        return Response(202)
    if not _is_file(key, service):
        return Response(404, {"x-ms-error-code": "BlobNotFound"})
    return Response(headers=described, body=CONTENT)


def azure_files(request: Request, service: Hostile) -> Response:
    path = request.path.partition("/")[2].partition("/")[2]
    absent = Response(404, {"x-ms-error-code": "ResourceNotFound"})
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
    if request.query.get("comp") == "list":
        if not is_folder:
            return absent
        size = 10**30 if service.raves else 4
        entries = "".join(
            f"<File><Name>{name}</Name><Properties><Content-Length>{size}</Content-Length>"
            f"<LastWriteTime>{STALE}</LastWriteTime></Properties></File>"
            for name in ("file-1", "file-2")[: service.page(request.query["maxresults"])]
        )
        marker = _token() if service.walks else ""
        return Response(
            headers=described,
            body=f"<EnumerationResults><Entries>{entries}</Entries><NextMarker>{marker}</NextMarker></EnumerationResults>",
        )
    if request.method == "PUT":
        return Response(201, described)
    if request.query.get("restype") == "directory":
        if request.method == "DELETE" and "tree" in path:
            return Response(409, {"x-ms-error-code": "DirectoryNotEmpty"})
        if request.method == "DELETE":
            return Response(202)
        return Response(headers=described) if is_folder else absent
    if not (_is_file(path, service) or _STAGING in path):
        return absent
    if request.method == "DELETE":
        return Response(202)
    return Response(headers=described, body=CONTENT)


def gcs(request: Request, service: Hostile) -> Response:
    _, _, key = request.path.partition("/o/")
    size = "-5" if service.raves else str(len(CONTENT))
    if "/rewriteTo/" in request.path:
        return _json({"kind": "storage#rewriteResponse", "done": True})
    if request.method == "GET" and not key:
        keys = _held(request.query.get("prefix", ""))[: service.page(request.query["maxResults"])]
        items = [{"name": key, "size": size, "updated": STALE} for key in keys]
        more = {"nextPageToken": _token()} if service.walks else {}
        return _json({"kind": "storage#objects", "items": items, **more})
    if request.method == "POST" and request.query.get("uploadType") == "resumable":
        astray = service.attack is Attack.FOREIGN_SESSION
        host = service.trap.url if service.trap and astray else service.url
        return Response(headers={"Location": f"{host}/session"})
    if request.method == "PUT":
        placed = request.headers["content-range"].removeprefix("bytes ")
        if placed.endswith("/*"):
            return Response(308, {"Range": f"bytes=0-{placed.partition('-')[2].partition('/')[0]}"})
        return _object("file", placed.rpartition("/")[2])
    if request.method == "POST":
        return _object("file", size)
    if request.method == "DELETE":
        return Response(204)
    if not _is_file(key, service):
        return Response(404)
    if request.query.get("alt") == "media":
        date = "never" if service.raves else _DATE
        generation = "many" if service.raves else "1"
        return Response(headers={"X-Goog-Generation": generation, "Last-Modified": date}, body=CONTENT)
    return _object(key, size, "never" if service.raves else STALE)


def _object(name: str, size: str, updated: str = STALE) -> Response:
    return _json({"kind": "storage#object", "name": name, "size": size, "updated": updated, "generation": "1"})


def _json(value: object) -> Response:
    return Response(headers={"Content-Type": "application/json"}, body=json.dumps(value))


BEHAVIOURS: Mapping[str, Behaviour] = {"s3": s3, "azure-blob": azure_blob, "azure-files": azure_files, "gcs": gcs}


def options(kind: str, url: str) -> dict[str, str]:
    """A connection to the hostile service, which takes every signature."""
    key = "c2VjcmV0IGtleSBvZiB0aGUgdGVzdHM="
    return {
        "s3": {"bucket": "bucket", "endpoint-url": url, "region": "us-east-1"},
        "azure-blob": {"container": "box", "account-url": f"{url}/account", "account-key": key},
        "azure-files": {"share": "share", "account-url": f"{url}/account", "account-key": key},
        "gcs": {"bucket": "bucket", "endpoint-url": url, "anonymous": "true"},
    }[kind]
