"""Long changes: answered before they are done if the client prefers that (RFC 7240), and the jobs that they become."""

from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from portico.api.problems import problem_of
from portico.api.requests import address_of, context_of, last_segment, operations_of, preferred_wait
from portico.api.schemas import JobBody, JobsBody, JsonResponse, filled, with_trash_ids
from portico.model import timestamps
from portico.model.paths import Path
from portico.operations.actors.auditing import ChangeResult
from portico.operations.jobs import Job, UserJobs
from portico.operations.operations import Operations

JOBS = "/backend/1.0.0/jobs"


async def carried_out(
    request: Request,
    kind: str,
    change: Callable[[Operations], Awaitable[ChangeResult]],
    source: Path,
    target: Path | None = None,
) -> Response:
    """The answer to a change: 201 or 204 when it is done, 202 if it continues as a job."""
    operations = await operations_of(request)
    wait = preferred_wait(request)
    if wait is None:
        result: ChangeResult | Job = await change(operations)
    else:
        result = await operations.jobs.run(kind, source, target, change, wait=wait)
    if isinstance(result, Job):
        headers = {"Location": f"{JOBS}/{result.id}", "Preference-Applied": "respond-async"}
        return JsonResponse(job_body(result), 202, headers)
    if result.path is None:
        response = Response(status_code=204)
    else:
        response = Response(status_code=201, headers={"Location": address_of(result.path)})
    return with_trash_ids(response, result.trash_ids)


async def list_jobs(request: Request) -> Response:
    jobs = await _jobs(request)
    return JsonResponse(JobsBody([job_body(job) for job in await jobs.list()]))


async def show(request: Request) -> Response:
    jobs = await _jobs(request)
    return JsonResponse(job_body(await jobs.get(last_segment(request))))


async def cancel(request: Request) -> Response:
    """202 if it is to end, 200 if it had ended and is forgotten; in either case with the job as it was."""
    job = await (await _jobs(request)).cancel(last_segment(request))
    return JsonResponse(job_body(job), 202 if job.state == "running" else 200)


async def _jobs(request: Request) -> UserJobs[Operations]:
    context_of(request).action = "jobs"
    return (await operations_of(request)).jobs


def job_body(job: Job) -> JobBody:
    given = {
        "target": job.target and str(job.target),
        "result": job.result and str(job.result),
        "entries_total": job.total,
        "ended_at": None if job.ended_at is None else timestamps.from_epoch(job.ended_at),
        "trash_id": job.trash_id,
    }
    body = filled(
        JobBody,
        job,
        source=str(job.source),
        entries_done=job.entries,
        bytes_done=job.size,
        started_at=timestamps.from_epoch(job.started_at),
        **{name: msgspec.UNSET if value is None else value for name, value in given.items()},
    )
    if job.code and job.detail:
        body.problem = problem_of(job.code, job.detail, address_of(job.source), job.request_id)
    return body
