"""`portico jobs`: long changes on the gateway, also those that the page or another program began."""

from types import SimpleNamespace

from portico.cli.parser import Command, Group, Parser
from portico.cli.remote.arguments import profile_option
from portico.cli.remote.command import reporting


def list_(options: SimpleNamespace) -> int:
    def work() -> int:
        from portico.cli.exits import DONE
        from portico.cli.output import show_list
        from portico.cli.remote.connect import connect

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

    return reporting(work)


def cancel(options: SimpleNamespace) -> int:
    def work() -> int:
        from portico.cli.exits import DONE
        from portico.cli.remote.connect import connect

        with connect(options) as client:
            job = client.cancel_job(options.id)
        if job.is_running:
            print(f"The {job.kind} of {job.source} is being cancelled; what was done is kept.")
        else:
            print(f"The {job.kind} of {job.source} had ended: {job.state}. It is forgotten.")
        return DONE

    return reporting(work)


def _json(parser: Parser) -> None:
    parser.add_flag("--json", dest="as_json", help="Print JSON.")


def _id(parser: Parser) -> None:
    parser.add_argument("id", "ID", help="The id of a job, as the list shows it.")


COMMANDS = {
    "jobs": Group(
        "List and cancel long moves, copies, deletions and restores on the gateway.",
        {
            "list": Command(list_, "List your jobs, the newest first.", (_json, profile_option)),
            "cancel": Command(cancel, "Cancel a job, or forget one that has ended.", (_id, profile_option)),
        },
        "Example:\n  portico jobs list",
    )
}
