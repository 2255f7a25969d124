"""Long changes on the gateway: listing and cancelling them."""

from types import SimpleNamespace

from portico.cli.exits import DONE
from portico.cli.output import show_list
from portico.cli.remote.connect import connect
from portico.cli.remote.job_progress import words_of


def list_jobs(options: SimpleNamespace) -> int:
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
    return DONE


def cancel_job(options: SimpleNamespace) -> int:
    with connect(options) as client:
        job = client.cancel_job(options.id)
    if job.is_running:
        print(f"{words_of(job)} is being cancelled; what was done is kept.")
    else:
        print(f"{words_of(job)} had ended: {job.state}. It is forgotten.")
    return DONE
