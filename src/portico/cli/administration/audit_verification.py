"""`portico audit verify`: whether lines of the journal were removed, changed or exchanged."""

import json
import os
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

from portico.cli.administration import home as homes
from portico.cli.administration.accounts import Accounts, read_accounts
from portico.cli.console.exits import DONE, FAILED, Missing
from portico.cli.console.output import Facts, print_json
from portico.cli.console.terminal import notice, warn
from portico.model import timestamps
from portico.model.visible_text import visible

if TYPE_CHECKING:
    from portico.settings.settings import Settings
    from portico.store.journal_verification import Report


def verify(options: SimpleNamespace) -> int:
    from portico.accounts.vault import BadSecretKey, SecretKey
    from portico.store.journal_verification import verify as verified

    missing = BadSecretKey("The secret key is missing; the journal can be verified only where the key is.")
    settings = homes.existing(options.home)
    if settings.database_in_home and not SecretKey.exists(settings.secret_key_file):
        raise missing  # a new one would be made, and have signed nothing
    logs = [(file, _size(file)) for file in options.log]
    if not options.log and not options.no_log:
        logs = _configured(settings)
    logged = _checkpoints(logs)

    async def work(accounts: Accounts) -> "Report":
        if accounts.signer is None:
            raise missing
        return await verified(accounts.database, accounts.signer, logged)

    report = read_accounts(options.home, work)
    if options.as_json:
        for finding in report.findings:
            print_json(
                {"finding": finding.kind, **{key: getattr(finding, key) for key in ("first", "last", "chain", "text")}}
            )
        print_json({**_summary(report), "logs": [file for file, _ in logs]})
    else:
        _show(report)
        if logs:
            print(visible(f"Compared with the checkpoints in {' and '.join(file for file, _ in logs)}."))
        else:
            notice("Not compared with an audit log: a database that was put back as a whole goes unnoticed.")
    return FAILED if report.findings else DONE


def _size(file: str) -> int:
    """What is added to the log later may be of lines that this command doesn't see."""
    try:
        return os.stat(file).st_size
    except OSError as error:
        raise Missing(f"The log {file} can't be read: {error.strerror}.", folder=False) from None


def _configured(settings: "Settings") -> list[tuple[str, int]]:
    file = settings.audit_file
    if file is None or file == "stdout":
        return []
    try:
        with open(file, "rb"):
            return [(file, _size(file))]
    except (OSError, Missing) as error:
        warn(visible(f"the audit log {file} can't be read ({getattr(error, 'strerror', None) or error})."))
        return []


def _checkpoints(files: Sequence[tuple[str, int]]) -> Iterator[str]:
    for file, size in files:
        with open(file, "rb") as lines:
            for line in lines:
                size -= len(line)
                if size < 0:
                    break
                if b'"checkpoint"' in line:
                    try:
                        yield str(json.loads(line)["checkpoint"])
                    except (ValueError, TypeError, KeyError, RecursionError):
                        continue  # the line of another program, or a torn one


def _summary(report: "Report") -> Facts:
    times = {key: at if at is None else timestamps.from_epoch(at) for key, at in _times(report)}
    counts = ("lines", "chains", "unproven", "before")
    findings = len(report.findings) + report.more
    return {**{key: getattr(report, key) for key in counts}, **times, "findings": findings}


def _times(report: "Report") -> Iterator[tuple[str, int | None]]:
    yield from (
        (key, at if isinstance(at := getattr(report, key), int) else None)
        for key in ("since", "until", "chained_since")
    )


def _show(report: "Report") -> None:
    for finding in report.findings:
        print(visible(finding.text))
    if report.more:
        print(f"And {report.more} more.")
    facts = _summary(report)
    processes = f"{report.chains} process{'es' if report.chains != 1 else ''}"
    span = f", from {facts['since']} to {facts['until']}" if report.lines else ""
    findings = f"{facts['findings'] or 'no'} finding{'s' if facts['findings'] != 1 else ''}"
    print(f"Verified {_lines(report.lines)} of {processes}{span}: {findings}.")
    if report.unproven:
        print(f"{_lines(report.unproven)} came after the last checkpoint of their process: not proven yet.")
    if report.before:
        print(f"{_lines(report.before)} are from before lines were chained{_chained_since(report)}.")


def _chained_since(report: "Report") -> str:
    if not isinstance(report.chained_since, int):
        return ""
    at = timestamps.from_epoch(report.chained_since)
    return f", which began at {at}. If Portico was not upgraded then, they were taken out of their chains"


def _lines(count: int) -> str:
    return f"{count} line{'s' if count != 1 else ''}"
