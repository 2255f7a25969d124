"""Resumable uploads when requests fail, responses are lost and sessions are gone; conditions and times."""

import json
from copy import copy
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from portico.model.errors import AlreadyExists, Changed, InvalidPath, NotFound, PorticoError, ProviderUnavailable
from portico.providers.contract.uploads import ResumableUpload, WriteOptions
from portico.providers.gcs import checksums
from portico.providers.gcs.provider import GcsProvider

from ...servers.gcs import CutBody, DropAnswer, Fault, GcsServer, Status
from ...servers.gcs.buckets import Bucket
from .actions import at, content, noise, pieces, put

MIB = 2**20
QUANTUM = 256 * 1024
LARGE = noise(9 * MIB + 7)
CHUNK = "upload_id"
INSERT = "uploadType=multipart"
MOMENT = datetime(2019, 5, 4, 3, 2, 1, 123_456, tzinfo=UTC)


class Saved:
    """The last saved state of an upload."""

    def __init__(self, upload: ResumableUpload) -> None:
        self.upload = upload
        self.state, self.offset = upload.state, upload.offset

    async def save(self, *, last: bool = False) -> None:
        self.state, self.offset = self.upload.state, self.upload.offset

    async def resume(self, provider: GcsProvider) -> ResumableUpload:
        self.upload = await provider.resume_upload(self.state)
        assert self.upload.offset == self.offset
        return self.upload

    async def send(self, content: bytes) -> None:
        await self.upload.append(pieces(content), self.save)


async def begun(provider: GcsProvider, *, replace: bool = True, renamed: bool = False) -> Saved:
    upload = await provider.begin_upload(at("f/file"), "text/x-own", WriteOptions(replace=replace), renamed=renamed)
    return Saved(upload)


@pytest.mark.parametrize("renamed", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["direct", "renamed"])
@pytest.mark.parametrize(
    "fault",
    [
        Fault(Status(503), "PUT", CHUNK, times=2),
        Fault(Status(503), "PUT", CHUNK, times=3, skip=2),
        Fault(CutBody(MIB), "PUT", CHUNK, times=2),
        Fault(CutBody(100), "PUT", CHUNK, skip=2),
        Fault(DropAnswer(), "PUT", CHUNK, times=2),
        Fault(DropAnswer(), "PUT", CHUNK, skip=1),
        Fault(DropAnswer(), "PUT", CHUNK, skip=2, times=2),
        Fault(DropAnswer(), "POST", "uploadType=resumable"),
        Fault(DropAnswer(), "POST", INSERT),
        Fault(Status(503), "DELETE", times=2),
    ],
    ids=lambda fault: f"{type(fault.what).__name__}-{fault.method}-{fault.times}-{fault.skip}",
)
async def test_a_request_that_fails_for_a_while(
    server: GcsServer, bucket: Bucket, provider: GcsProvider, fault: Fault, renamed: bool
) -> None:
    row = await begun(provider, replace=False, renamed=renamed)
    server.faults.append(copy(fault))
    await row.send(LARGE[: MIB + 5])
    await row.resume(provider)
    await row.send(LARGE[MIB + 5 :])
    others = (at(f"f/file ({number})") for number in count(1)) if renamed else None
    entry = await (await row.resume(provider)).finish(row.save, alternatives=others)
    known = await provider.stat(at("f/file"))
    assert (entry.size, entry.etag, entry.content_type) == (len(LARGE), known.etag, "text/x-own")
    assert await content(provider, "f/file") == LARGE
    assert list(bucket.objects) == ["f/file"]


async def test_bytes_that_the_service_has_but_nobody_saved(server: GcsServer, provider: GcsProvider) -> None:
    row = await begun(provider)
    await row.send(LARGE[:MIB])
    saved = row.state
    await row.send(LARGE[MIB : 3 * MIB])
    (session,) = server.sessions.values()
    assert session.content.size == 3 * MIB
    row.state, row.offset = saved, MIB
    for size in (QUANTUM, 4 * MIB, len(LARGE)):
        await row.resume(provider)
        await row.send(LARGE[row.offset : row.offset + size])
    await row.upload.finish(row.save)
    assert await content(provider, "f/file") == LARGE


async def test_other_bytes_of_an_earlier_writer_are_noticed(
    server: GcsServer, bucket: Bucket, provider: GcsProvider
) -> None:
    """The service keeps the first bytes that it got: the checksum of everything shows that they are not ours."""
    row = await begun(provider)
    await row.send(LARGE[:MIB])
    saved = row.state
    await row.send(bytes(MIB))
    row.state, row.offset = saved, MIB
    await row.resume(provider)
    await row.send(LARGE[MIB:])
    with pytest.raises(PorticoError):
        await row.upload.finish(row.save)
    assert "f/file" not in bucket.objects


async def test_a_size_that_is_a_multiple_ends_without_another_byte(server: GcsServer, provider: GcsProvider) -> None:
    data = LARGE[: 2 * MIB]
    row = await begun(provider)
    await row.send(data)
    server.faults.append(Fault(DropAnswer(), "PUT", CHUNK))
    entry = await (await row.resume(provider)).finish(row.save)
    assert entry.size == len(data)
    assert await content(provider, "f/file") == data


async def test_a_service_that_is_down_loses_nothing_that_was_saved(server: GcsServer, provider: GcsProvider) -> None:
    row = await begun(provider)
    await row.send(LARGE[:MIB])
    server.faults.append(Fault(Status(503), "PUT", CHUNK, times=100))
    with pytest.raises(ProviderUnavailable):
        await row.send(LARGE[MIB:])
    server.faults.clear()
    assert row.offset == MIB
    for _ in range(2):  # the object that failed can go on, too
        await row.send(LARGE[row.offset : row.offset + 3 * MIB])
    await row.resume(provider)
    await row.send(LARGE[row.offset :])
    await row.upload.finish(row.save)
    assert await content(provider, "f/file") == LARGE


@pytest.mark.parametrize("status", [404, 410])
async def test_a_session_that_is_gone(server: GcsServer, provider: GcsProvider, status: int) -> None:
    row = await begun(provider)
    await row.send(LARGE[: MIB + 1])
    server.faults.append(Fault(Status(status), "PUT", CHUNK, times=100))
    with pytest.raises(NotFound, match="Send the file again"):
        await row.send(LARGE[MIB + 1 :])
    with pytest.raises(NotFound, match="Send the file again") as caught:
        await (await row.resume(provider)).finish(row.save)
    assert CHUNK not in f"{caught.value.detail} {caught.value.cause}"
    server.faults.append(Fault(Status(status), "DELETE", CHUNK))
    await row.upload.abandon()


async def test_a_session_that_ended_because_the_name_is_taken(
    server: GcsServer, bucket: Bucket, provider: GcsProvider
) -> None:
    row = await begun(provider, replace=False)
    await row.send(LARGE[: MIB + 1])
    await put(provider, "f/file", b"another")
    server.sessions.clear()
    with pytest.raises(AlreadyExists):
        await row.upload.finish(row.save)
    await row.upload.abandon()
    await row.upload.abandon()
    assert list(bucket.objects) == ["f/file"]
    assert await content(provider, "f/file") == b"another"


async def test_an_abandoned_session_is_cancelled(server: GcsServer, provider: GcsProvider) -> None:
    row = await begun(provider)
    await row.send(LARGE[: MIB + 1])
    assert server.open_sessions == 1
    await (await row.resume(provider)).abandon()
    assert server.open_sessions == 0


async def test_abandoning_fails_while_the_session_cannot_be_cancelled(server: GcsServer, provider: GcsProvider) -> None:
    row = await begun(provider)
    await row.send(LARGE[: MIB + 1])
    server.faults.append(Fault(Status(503), "DELETE", CHUNK, times=99))
    with pytest.raises(ProviderUnavailable):
        await (await row.resume(provider)).abandon()
    assert server.open_sessions == 1
    server.faults.clear()
    await (await row.resume(provider)).abandon()
    await (await row.resume(provider)).abandon()
    assert server.open_sessions == 0


async def test_without_a_fast_checksum(
    server: GcsServer, provider: GcsProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "FAST", False)
    row = await begun(provider)
    await row.send(LARGE[:MIB])
    await row.resume(provider)
    await row.send(LARGE[MIB:])
    await row.upload.finish(row.save)
    assert await content(provider, "f/file") == LARGE


async def test_a_reserved_folder(provider: GcsProvider) -> None:
    with pytest.raises(InvalidPath):
        await provider.begin_upload(at(".well-known/acme-challenge/file"), "text/plain")


async def test_what_lost_uploads_left_is_swept_when_it_is_old(bucket: Bucket, provider: GcsProvider) -> None:
    row = await begun(provider)
    await row.send(b"1")
    await put(provider, "kept", b"1")
    (tail,) = [stored for key, stored in bucket.objects.items() if key.startswith(".portico~uploads/")]
    bucket.objects["kept"].updated = datetime.now(UTC) - timedelta(days=100)
    tail.updated = datetime.now(UTC) - timedelta(days=59)
    assert await provider.sweep() == 0
    tail.updated = datetime.now(UTC) - timedelta(days=61)
    assert await provider.sweep() == 1
    assert list(bucket.objects) == ["kept"]


# Conditions and times


@pytest.mark.parametrize("etag", ["0", "", "-1", "1" * 30, "x", "１"])
async def test_an_etag_that_is_no_generation(bucket: Bucket, provider: GcsProvider, etag: str) -> None:
    """`0` would mean to the service that there must be no object."""
    with pytest.raises(Changed):
        await provider.write(at("absent"), pieces(b"1"), "text/plain", WriteOptions(if_match=etag))
    with pytest.raises(Changed):
        await provider.store("absent", pieces(b"1"), "text/plain", WriteOptions(at_most=1, if_match=etag))
    assert not bucket.objects


@pytest.mark.parametrize("data", [b"small", LARGE], ids=["insert", "session"])
@pytest.mark.parametrize(
    "fault", [Fault(DropAnswer(), "POST", INSERT), Fault(DropAnswer(), "PUT", CHUNK, skip=1)], ids=["1", "2"]
)
async def test_a_lost_response_to_a_conditional_write(
    server: GcsServer, provider: GcsProvider, data: bytes, fault: Fault
) -> None:
    first = await put(provider, "file", b"first")
    server.faults.append(copy(fault))
    second = await provider.write(at("file"), pieces(data), "text/plain", WriteOptions(if_match=first.etag))
    assert (await provider.stat(at("file"))).etag == second.etag
    assert await content(provider, "file") == data


async def test_another_version_appears_while_a_conditional_write_is_retried(
    server: GcsServer, bucket: Bucket, provider: GcsProvider
) -> None:
    first = await put(provider, "file", b"first")
    upload = provider.store("file", pieces(b"second"), "text/plain", WriteOptions(at_most=6, if_match=first.etag))
    await put(provider, "file", b"another")
    server.faults.append(Fault(Status(503), "POST", INSERT))
    with pytest.raises(Changed):
        await upload
    assert await content(provider, "file") == b"another"


@pytest.mark.parametrize("data", [b"small", LARGE], ids=["insert", "session"])
async def test_a_modification_time_survives_copies(bucket: Bucket, provider: GcsProvider, data: bytes) -> None:
    written = await provider.write(at("file"), pieces(data), "text/plain", WriteOptions(modified=MOMENT))
    await provider.copy(at("file"), at("copy"))
    for entry in (written, await provider.stat(at("file")), await provider.stat(at("copy"))):
        assert entry.last_modified == "2019-05-04T03:02:01.123Z"
    kept = bucket.objects["file"].metadata
    assert kept["mtime"] == "2019-05-04T03:02:01.123456000Z"
    assert kept["goog-reserved-file-mtime"] == "1556938921"


async def test_modification_times_of_other_programs(bucket: Bucket, provider: GcsProvider) -> None:
    for name, metadata, expected in (
        ("rclone", {"mtime": "2020-02-29T12:00:00.987654321+02:00"}, "2020-02-29T10:00:00.987Z"),
        ("gsutil", {"goog-reserved-file-mtime": "1556938921"}, "2019-05-04T03:02:01.000Z"),
        ("both", {"mtime": "yesterday", "goog-reserved-file-mtime": "1556938921"}, "2019-05-04T03:02:01.000Z"),
        ("odd", {"mtime": "yesterday", "goog-reserved-file-mtime": "x"}, None),
    ):
        await put(provider, name, b"1")
        bucket.objects[name].metadata = metadata
        found = (await provider.stat(at(name))).last_modified or ""
        assert found == expected if expected else found > "2026"


async def test_the_state_is_small(provider: GcsProvider) -> None:
    row = await begun(provider)
    for start in range(0, 4 * MIB, QUANTUM):
        await row.send(LARGE[start : start + QUANTUM])
    assert len(json.loads(row.state)["parts"]) == 1


@pytest.mark.parametrize("what", [Status(503), DropAnswer()], ids=["before", "after"])
@pytest.mark.parametrize("renamed", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["direct", "renamed"])
async def test_a_process_that_dies_at_any_request(
    server: GcsServer, bucket: Bucket, provider: GcsProvider, renamed: bool, what: Status | DropAnswer
) -> None:
    """Its last request is carried out or not, and no other follows."""
    data = LARGE[: MIB + 2000]
    await provider.stat(at(""))
    for last in range(100):
        bucket.objects.clear()
        row = await begun(provider, replace=False, renamed=renamed)
        others = [at(f"f/file ({number})") for number in range(1, 5)]
        server.faults += [Fault(what, skip=last), Fault(Status(503), skip=last, times=10_000)]
        try:
            await row.send(data[:1000])
            await row.resume(provider)
            await row.send(data[1000:-1])
            await row.resume(provider)
            await row.send(data[-1:])
            await (await row.resume(provider)).finish(row.save, alternatives=iter(others))
        except PorticoError:
            pass
        died = server.faults[0].times == 0
        server.faults.clear()
        await row.resume(provider)
        await row.send(data[row.offset :])
        entry = await (await row.resume(provider)).finish(row.save, alternatives=iter(others))
        assert entry.etag == (await provider.stat(at("f/file"))).etag
        assert await content(provider, "f/file") == data
        assert list(bucket.objects) == ["f/file"]
        if not died:
            return
    raise AssertionError("there is no end to the requests")
