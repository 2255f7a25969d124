"""Rewinds: users undo their own changes."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from portico.api.jobs import job_body
from portico.api.request_body import read_json
from portico.api.requests import WAIT_SECONDS, context_of, last_segment, operations_of, preferred_wait
from portico.api.schemas import JsonResponse, LeftAloneBody, NewRewindBody, RewindBody, RewindStepsBody, filled
from portico.model import timestamps
from portico.model.errors import InvalidRequest
from portico.model.paths import Path
from portico.operations.jobs import Job
from portico.operations.rewind.own import OwnLeftAlone, OwnRewind
from portico.runtime import clock

REWINDS = "/backend/1.0.0/rewinds"

_EXAMPLE = '{"since": "2026-11-14T09:30:00Z", "dryRun": true}'


async def start(request: Request) -> Response:
    """200 with the plan, or with a rewind that is done; 202 if it continues as a job."""
    context_of(request).action = "rewind"
    operations = await operations_of(request)
    rewinds = operations.rewinds
    body = await read_json(request, NewRewindBody, _EXAMPLE)
    since, path = _moment("since", body.since), Path.parse(body.path)
    until = None if body.until is None else _moment("until", body.until)
    if body.dry_run:
        return JsonResponse(_body(await rewinds.plan(since, until, path)))
    await operations.jobs.require_room()  # before a plan is made and stored
    begun = await rewinds.begin(since, until, path)
    rewind_id = begun.id or ""
    wait = preferred_wait(request)
    context_of(request).release()  # a job takes an admission slot of its own
    result = await operations.jobs.run(
        "rewind", path, None, lambda made: made.rewinds.run(rewind_id), wait=WAIT_SECONDS if wait is None else wait
    )
    address = {"Location": f"{REWINDS}/{rewind_id}"}
    if isinstance(result, Job):
        shown = _body(msgspec.structs.replace(begun, state="running"))
        shown.job = job_body(result)
        return JsonResponse(shown, 202, address)
    return JsonResponse(_body(await rewinds.get(rewind_id)), 200, address)


async def show(request: Request) -> Response:
    context_of(request).action = "rewind-show"
    operations = await operations_of(request)
    return JsonResponse(_body(await operations.rewinds.get(last_segment(request))))


def _moment(name: str, text: str) -> int:
    try:
        return clock.from_datetime(timestamps.parse(text))
    except ValueError:
        raise InvalidRequest(
            f"'{name}' is not a valid time; use 2026-11-14T09:30:00Z, or seconds since 1970."
        ) from None


def _body(rewind: OwnRewind) -> RewindBody:
    return filled(
        RewindBody,
        rewind,
        since=timestamps.from_epoch(rewind.since),
        until=None if rewind.until is None else timestamps.from_epoch(rewind.until),
        path=str(rewind.path),
        steps=RewindStepsBody(**{name: rewind.steps.get(name, 0) for name in RewindStepsBody.__struct_fields__}),
        steps_done=rewind.done,
        left_alone=[_left_alone(each) for each in rewind.left_alone],
        job=msgspec.UNSET,
    )


def _left_alone(each: OwnLeftAlone) -> LeftAloneBody:
    at = None if each.at is None else timestamps.from_epoch(each.at)
    return filled(LeftAloneBody, each, path=each.path and str(each.path), at=at)
