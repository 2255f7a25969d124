"""Long changes on the gateway: listing and cancelling them."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace

from portico.cli.console.output import show_list
from portico.cli.console.terminal import draw, draws
from portico.cli.remote import values
from portico.cli.remote.connect import connect
from portico.client.client import Client
from portico.client.errors import ClientError
from portico.client.jobs import Job, JobProgress
from portico.model.visible_text import visible


@contextmanager
def job_line(client: Client) -> Iterator[JobProgress | None]:
    """Shows a job in one line on standard error, erased at the end. An interrupted command cancels its job.

    Without a terminal nothing is shown, and the change ends with the command's connection.
    """
    job: Job | None = None

    def show(now: Job) -> None:
        nonlocal job
        job = now
        draw(line_of(job) if job.is_running else "")

    try:
        yield show if draws() else None
    except KeyboardInterrupt:
        if job and job.is_running:
            with suppress(ClientError):
                client.cancel_job(job.id)
        raise
    finally:
        if job:
            draw("")


_DOING = {"copy": "Copying", "move": "Moving", "delete": "Deleting", "restore": "Restoring", "remove": "Removing"}


def line_of(job: Job) -> str:
    """`Copying /reports: 1200 of 5000 files, 1.2 GB`."""
    of = f" of {job.entries_total}" if job.entries_total is not None else ""
    parts = [f"{job.entries_done}{of} files"]
    if job.bytes_done:
        parts.append(values.size(job.bytes_done))
    return f"{words_of(job)}: {', '.join(parts)}"


def words_of(job: Job) -> str:
    if job.kind == "empty":
        return "Emptying the trash"
    return f"{_DOING.get(job.kind, job.kind.capitalize())} {visible(job.source)}"


def list_jobs(options: SimpleNamespace) -> None:
    with connect(options) as client:
        rows = [
            {
                "id": job.id,
                "kind": job.kind,
                "state": job.state,
                "source": job.source,
                "target": job.result or job.target,
                "entriesDone": job.entries_done,
                "entriesTotal": job.entries_total,
                "bytesDone": job.bytes_done,
                "startedAt": job.started_at,
                "endedAt": job.ended_at,
                "error": job.error.detail if job.error else None,
            }
            for job in client.jobs()
        ]
    show_list(rows, as_json=options.as_json, empty="There are no jobs.")


def cancel_job(options: SimpleNamespace) -> None:
    with connect(options) as client:
        job = client.cancel_job(options.id)
    if job.is_running:
        print(f"{words_of(job)} is being cancelled. The finished part is kept.")
    else:
        print(f"{words_of(job)} had already ended: {job.state}. It was removed from the list.")
