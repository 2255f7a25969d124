"""Jobs: moves, copies, deletions and restores that the gateway goes on with after it has answered."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

from portico.client.auth.session import AuthSession
from portico.client.entries import camel, items_of
from portico.client.errors import ClientError, JobCancelled, NotAGateway
from portico.client.http.effects import Operation, Request, Response, Sleep, new_key
from portico.client.http.problems import problem

JOBS = "/backend/1.0.0/jobs"
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 1.0
_OPTIONAL = ("target", "result", "entries_total", "ended_at", "trash_id")


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
    started_at: str
    ended_at: str | None
    error: ClientError | None
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


def carried_out(
    session: AuthSession, method: str, address: str, progress: JobProgress | None
) -> Operation[tuple[Response, Job | None]]:
    """The response, and the job that the change became, if it has taken long and somebody wants to see its progress."""
    waiting = Waiting(progress)
    request = Request(method, address, new_key() | waiting.headers, long_running=True)
    response = yield from session.request(request)
    return response, (yield from outcome(session, response, waiting))


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
    return [job_of(each) for each in items_of((yield from session.request(Request("GET", JOBS))).json())]


def cancel(session: AuthSession, job_id: str) -> Operation[Job]:
    return job_of((yield from session.request(Request("DELETE", f"{JOBS}/{job_id}"))).json())


def job_of(body: Any) -> Job:
    try:
        failure = body.get("problem")
        error = problem(failure["status"], {}, failure) if failure else None
        optional = {name: body.get(camel(name)) for name in _OPTIONAL}
        names = {each.name for each in fields(Job)} - {*_OPTIONAL, "error"}
        return Job(**{name: body[camel(name)] for name in names}, **optional, error=error)
    except (KeyError, TypeError, AttributeError):
        raise NotAGateway("The response is not a job.") from None
