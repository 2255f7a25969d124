"""Jobs: moves, copies, deletions and restores that the gateway goes on with after it has answered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from portico.client.auth.session import AuthSession
from portico.client.errors import ClientError, JobCancelled, NotAGateway
from portico.client.http.effects import Operation, Request, Response, Sleep
from portico.client.http.problems import problem

JOBS = "/backend/1.0.0/jobs"
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    kind: str
    """`copy`, `move`, `delete`, `restore`, or, in the trash, `remove` or `empty`."""
    state: Literal["running", "done", "failed", "cancelled"]
    source: str
    target: str | None
    """What was asked for."""
    result: str | None
    """Where it is, if it is done."""
    entries_done: int
    bytes_done: int
    entries_total: int | None
    """If it is known."""
    started_at: str
    ended_at: str | None
    error: ClientError | None
    """If it failed."""
    trash_id: str | None = None
    """Of what was deleted, if the gateway keeps it."""

    @property
    def is_running(self) -> bool:
        return self.state == "running"


JobProgress = Callable[[Job], None]
"""Called about once a second with the job as it is now."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a caller wants of a change that takes long."""

    progress: JobProgress | None = None
    wait: bool = True

    @property
    def headers(self) -> dict[str, str]:
        """Without a wish, the request is answered when it is done, and is cancelled if the client vanishes."""
        if not self.wait:
            return {"Prefer": "respond-async, wait=0"}
        return {"Prefer": "respond-async"} if self.progress else {}


def outcome(session: AuthSession, response: Response, waiting: Waiting) -> Operation[Job | None]:
    """The job of the change, if it became one: when it is done, or at once if it is not waited for.

    Raises what went wrong.
    """
    if response.status != 202:
        return None
    job = job_of(response.json())
    return (yield from wait_for(session, job.id, waiting.progress)) if waiting.wait else job


def wait_for(session: AuthSession, job_id: str, progress: JobProgress | None) -> Operation[Job]:
    """The job when it is done; raises the error of one that failed, and `JobCancelled`."""
    pause = _FIRST_PAUSE_SECONDS
    while True:
        job = yield from get(session, job_id)
        if progress:
            progress(job)
        if job.error:
            raise job.error
        if job.state == "cancelled":
            raise JobCancelled(f"The {job.kind} of '{job.source}' was cancelled. The finished part is kept.")
        if not job.is_running:
            return job
        yield Sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def get(session: AuthSession, job_id: str) -> Operation[Job]:
    return job_of((yield from session.request(Request("GET", f"{JOBS}/{job_id}"))).json())


def newest(session: AuthSession) -> Operation[list[Job]]:
    body = (yield from session.request(Request("GET", JOBS))).json()
    if not isinstance(body, dict) or not isinstance(body.get("content"), list):
        raise NotAGateway("The response is not a list of jobs.")
    return [job_of(each) for each in body["content"]]


def cancel(session: AuthSession, job_id: str) -> Operation[Job]:
    return job_of((yield from session.request(Request("DELETE", f"{JOBS}/{job_id}"))).json())


def job_of(body: Any) -> Job:
    try:
        fields: Mapping[str, Any] = body
        failure = fields.get("problem")
        return Job(
            fields["id"],
            fields["kind"],
            fields["state"],
            fields["source"],
            fields.get("target"),
            fields.get("result"),
            fields["entriesDone"],
            fields["bytesDone"],
            fields.get("entriesTotal"),
            fields["startedAt"],
            fields.get("endedAt"),
            problem(failure["status"], {}, failure) if failure else None,
            fields.get("trashId"),
        )
    except (KeyError, TypeError, AttributeError):
        raise NotAGateway("The response is not a job.") from None
