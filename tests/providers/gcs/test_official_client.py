"""The test server against Google's own client, which shows that it behaves like the service."""

from collections.abc import Iterator
from pathlib import Path as Folder

import pytest
from google.api_core.client_options import ClientOptions
from google.api_core.exceptions import BadRequest, NotFound, PreconditionFailed, RequestRangeNotSatisfiable
from google.auth.exceptions import RefreshError
from google.cloud import storage
from google.cloud.storage.retry import DEFAULT_RETRY
from google.oauth2 import service_account

from ...servers.gcs import GcsServer, Status
from ...servers.gcs.buckets import Bucket
from ...servers.gcs.faults import Fault
from .actions import noise

MIB = 2**20


def new_client(server: GcsServer, key_file: str) -> storage.Client:
    credentials = service_account.Credentials.from_service_account_file(key_file)
    return storage.Client("project", credentials, client_options=ClientOptions(api_endpoint=server.address))


@pytest.fixture
def client(server: GcsServer, key_file: str) -> Iterator[storage.Client]:
    client = new_client(server, key_file)
    yield client
    client.close()


@pytest.fixture
def theirs(client: storage.Client, bucket: Bucket) -> storage.Bucket:
    return client.bucket(bucket.name)


@pytest.mark.parametrize("name", ["plain", "a/b c/é?#%2F&=", "folder/"])
@pytest.mark.parametrize("checksum", ["crc32c", "md5"])
def test_a_small_upload(theirs: storage.Bucket, name: str, checksum: str) -> None:
    blob = theirs.blob(name)
    blob.metadata = {"own": "value"}
    blob.upload_from_string(b"hello", "text/x-own", checksum=checksum)
    assert theirs.blob(name).download_as_bytes() == b"hello"
    found = theirs.get_blob(name)
    assert (found.size, found.content_type, found.metadata) == (5, "text/x-own", {"own": "value"})
    assert (found.generation, found.crc32c) == (blob.generation, "mnG7TA==")
    assert (found.metageneration, found.md5_hash) == (1, "XUFAKrxLKna5cZ2REBfFkg==")
    assert found.updated is not None


@pytest.mark.parametrize("size", [MIB // 4, MIB, MIB + 1])
def test_a_resumable_upload(theirs: storage.Bucket, tmp_path: Folder, size: int) -> None:
    data = noise(size)
    file = tmp_path / "file"
    file.write_bytes(data)
    blob = theirs.blob("large", chunk_size=MIB // 4)
    with file.open("rb") as stream:
        blob.upload_from_file(stream, checksum="crc32c")
    assert theirs.blob("large").download_as_bytes() == data
    assert blob.size == size


def test_a_resumable_upload_that_is_interrupted(server: GcsServer, theirs: storage.Bucket) -> None:
    data = noise(MIB)
    server.faults.append(Fault(Status(503), "PUT", "upload_id", times=2, skip=1))
    with theirs.blob("large", chunk_size=MIB // 4).open("wb", retry=DEFAULT_RETRY) as stream:
        stream.write(data)
    assert theirs.blob("large").download_as_bytes() == data


def test_pages(client: storage.Client, theirs: storage.Bucket) -> None:
    for name in ("a/1", "a/2", "b", "c/d/e", "f", "é"):
        theirs.blob(name).upload_from_string(b"")
    listed = client.list_blobs(theirs, delimiter="/", page_size=2)
    pages = [([blob.name for blob in page], sorted(page.prefixes)) for page in listed.pages]
    assert pages == [(["b"], ["a/"]), (["f"], ["c/"]), (["é"], [])]
    assert [blob.name for blob in client.list_blobs(theirs, prefix="a/", page_size=1)] == ["a/1", "a/2"]
    fields = "items(name,size),nextPageToken"
    blobs = list(client.list_blobs(theirs, page_size=4, fields=fields))
    assert [blob.name for blob in blobs] == ["a/1", "a/2", "b", "c/d/e", "f", "é"]
    assert {blob.generation for blob in blobs} == {None}


@pytest.mark.parametrize("query", [{"page_token": "nonsense"}, {"page_token": "AAAA"}, {"page_size": -1}])
def test_a_bad_page_is_refused(client: storage.Client, theirs: storage.Bucket, query: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        next(client.list_blobs(theirs, **query).pages)


def test_ranges(theirs: storage.Bucket) -> None:
    data = noise(1000)
    theirs.blob("file").upload_from_string(data)
    blob = theirs.blob("file")
    assert blob.download_as_bytes(start=0, end=0) == data[:1]
    assert blob.download_as_bytes(start=10, end=19) == data[10:20]
    assert blob.download_as_bytes(start=990, end=5000) == data[990:]
    assert blob.download_as_bytes(start=-7) == data[-7:]
    with pytest.raises(RequestRangeNotSatisfiable):
        blob.download_as_bytes(start=1000)


def test_deletion(theirs: storage.Bucket) -> None:
    blob = theirs.blob("file")
    blob.upload_from_string(b"1")
    with pytest.raises(PreconditionFailed):
        blob.delete(if_generation_match=1)
    blob.delete()
    for gone in (blob.delete, blob.download_as_bytes, blob.reload):
        with pytest.raises(NotFound):
            gone()


def test_preconditions(theirs: storage.Bucket) -> None:
    blob = theirs.blob("file")
    blob.upload_from_string(b"1", if_generation_match=0)
    first = blob.generation
    for again in (b"2", noise(9 * MIB)):  # in one request, and resumable
        with pytest.raises(PreconditionFailed):
            theirs.blob("file").upload_from_string(again, if_generation_match=0)
    theirs.blob("file").upload_from_string(b"2", if_generation_match=first)
    assert theirs.blob("file").download_as_bytes(if_generation_not_match=first) == b"2"
    for condition in ({"if_generation_match": first}, {"if_metageneration_match": 2}):
        with pytest.raises(PreconditionFailed):
            theirs.blob("file").download_as_bytes(**condition)
    with pytest.raises(NotFound):
        theirs.blob("file", generation=first).download_as_bytes()


def test_a_rewrite(theirs: storage.Bucket) -> None:
    data = noise(9 * MIB)
    source = theirs.blob("source")
    source.upload_from_string(data, "text/x-own")
    target = theirs.blob("target")
    calls, token = 0, None
    while calls == 0 or token:
        token, *_ = target.rewrite(source, token=token)
        calls += 1
    assert calls == 3
    assert target.download_as_bytes() == data
    assert theirs.get_blob("target").content_type == "text/x-own"
    with pytest.raises(PreconditionFailed):
        target.rewrite(source, if_generation_match=0)


@pytest.mark.parametrize("sent", [{"crc32c": "AAAAAA=="}, {"md5Hash": "AAAAAAAAAAAAAAAAAAAAAA=="}])
def test_a_wrong_checksum_is_refused(theirs: storage.Bucket, sent: dict[str, str]) -> None:
    blob = theirs.blob("file")
    blob._properties.update(sent)
    blob._changes.update(sent)
    with pytest.raises(BadRequest):
        blob.upload_from_string(b"hello", checksum=None)
    assert not theirs.blob("file").exists()


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "x" * 1025, "é" * 513, ".well-known/acme-challenge/x"])
def test_names_that_are_not_allowed(theirs: storage.Bucket, name: str) -> None:
    with pytest.raises(BadRequest):
        theirs.blob(name).upload_from_string(b"")


def test_a_key_of_another(server: GcsServer, bucket: Bucket, tmp_path: Folder) -> None:
    with GcsServer() as other:
        file = Folder(other.write_key_file(tmp_path / "other.json"))
    file.write_text(file.read_text().replace(other.address, server.address))
    client = new_client(server, str(file))
    with pytest.raises(RefreshError, match="Invalid JWT Signature"):
        client.bucket(bucket.name).blob("x").exists()
    client.close()
