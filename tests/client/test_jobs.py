"""Long changes as jobs, with both clients."""

from json import dumps
from pathlib import Path
from typing import Any

import pytest

from portico.client import Client, Job, JobCancelled, NotFound, ProviderUnavailable
from portico.client.http.effects import Request, Response, Sleep
from portico.client.jobs import Waiting, outcome
from portico.client.trash import restore

BODY = {
    "id": "a" * 32,
    "kind": "copy",
    "state": "running",
    "source": "/a",
    "target": "/b",
    "entriesDone": 1,
    "bytesDone": 10,
    "startedAt": "2026-11-14T09:30:00.000Z",
}
PROBLEM = {"status": 503, "code": "provider-unavailable", "detail": "It is gone.", "requestId": "1"}


class Session:
    """In place of an `AuthSession`."""

    def request(self, request: Request) -> Any:
        return (yield request)


def run(*bodies: dict[str, Any], waiting: Waiting) -> Any:
    """The result of a change whose job looks like these, one after the other."""
    replies = [Response(202 if number == 0 else 200, {}, dumps(body).encode()) for number, body in enumerate(bodies)]
    operation = outcome(Session(), replies.pop(0), waiting)  # type: ignore[arg-type]
    answer = None
    try:
        while True:
            effect = operation.send(answer)
            answer = None if isinstance(effect, Sleep) else replies.pop(0)
    except StopIteration as end:
        assert not replies
        return end.value


def test_progress_until_the_end() -> None:
    seen: list[Job] = []
    ended = BODY | {"state": "done", "result": "/b", "entriesTotal": 2, "entriesDone": 2}
    assert run(BODY, BODY, ended, waiting=Waiting(seen.append)).result == "/b"
    assert [(job.state, job.entries_done, job.entries_total) for job in seen] == [("running", 1, None), ("done", 2, 2)]
    job = run(BODY, waiting=Waiting(wait=False))
    assert job.is_running
    with pytest.raises(ProviderUnavailable, match="It is gone"):
        run(BODY, BODY | {"state": "failed", "problem": PROBLEM}, waiting=Waiting(seen.append))
    with pytest.raises(JobCancelled, match="kept"):
        run(BODY, BODY | {"state": "cancelled"}, waiting=Waiting(seen.append))


@pytest.mark.parametrize("client_kind", ["sync", "async"], indirect=True)
def test_a_job_of_a_gateway(client: Client, root: Path) -> None:
    (root / "tree").mkdir()
    (root / "tree" / "file").write_bytes(b"content")
    assert client.copy("/tree", "/plain", progress=lambda _: None) is None
    job = client.copy("/tree", "/copy", wait=False)
    assert job
    done = client.wait_for_job(job.id)
    assert (done.kind, done.state, done.result) == ("copy", "done", "/copy")
    assert (root / "copy" / "file").read_bytes() == b"content"
    assert client.jobs()[0].id == job.id
    assert client.cancel_job(job.id) == done, "it is forgotten"
    with pytest.raises(NotFound):
        client.job(job.id)
    removal = client.move("/missing", "/elsewhere", wait=False)
    assert removal
    with pytest.raises(NotFound):
        client.wait_for_job(removal.id)
    # In the trash, too.
    trash_id = client.delete("/copy", recursive=True)
    assert trash_id
    assert client.restore(trash_id, progress=lambda _: None) == "/copy"
    trash_id = client.delete("/copy", recursive=True)
    assert trash_id
    client.remove_trashed(trash_id, progress=lambda _: None)
    client.empty_trash(progress=lambda _: None)
    assert [*client.trash()] == []


def test_a_restore_that_became_a_job() -> None:
    replies = [Response(202, {}, dumps(BODY).encode())]
    replies.append(Response(200, {}, dumps(BODY | {"state": "done", "result": "/a (1)"}).encode()))
    operation = restore(Session(), "1", "rename", lambda _: None)  # type: ignore[arg-type]
    request = next(operation)
    assert isinstance(request, Request)
    assert request.headers["Prefer"] == "respond-async"
    operation.send(replies.pop(0))
    with pytest.raises(StopIteration) as end:
        operation.send(replies.pop(0))
    assert end.value.value == "/a (1)"
