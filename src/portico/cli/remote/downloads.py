"""`portico get` and `portico cat`: from the gateway to local files and folders, or to standard output."""

import os
from argparse import Namespace
from collections.abc import Iterator

from portico.cli.exits import DONE, Missing, UsageMistake
from portico.cli.remote.download_plan import DownloadPlan, Wanted
from portico.cli.remote.opening import connect
from portico.cli.remote.paths import (
    contents_of,
    expanded,
    find,
    is_pattern,
    looking_for,
    name_of,
    refuse_twins,
)
from portico.cli.remote.sameness import Sameness
from portico.cli.remote.tallies import Tally
from portico.cli.remote.transfers import Item, transfer
from portico.cli.terminal import standard_output
from portico.client.client import Client
from portico.client.errors import ClientError
from portico.client.progress import Progress
from portico.client.receipts import Received


def get(options: Namespace) -> int:
    *sources, target = options.paths if len(options.paths) > 1 else [*options.paths, "."]
    if target == "-":
        options.paths = sources
        return cat(options)
    tally = Tally("downloaded", options)
    with connect(options, connections=options.jobs) as client:
        wanted = _wanted(client, sources, options, tally)
        if wanted:
            many = len(sources) > 1 or is_pattern(sources[0]) or any(one.entry.is_folder for one in wanted)
            into = many or target.endswith("/") or os.path.isdir(target)
            with client.record() as record:
                sameness = Sameness(client, options, record)
                plan = DownloadPlan(client, options, tally, sameness)
                download(client, options, plan.of(wanted, target, into=into), tally, sameness.fetched)
    return tally.finish()


def cat(options: Namespace) -> int:
    out = standard_output().buffer
    with connect(options) as client:
        for path in expanded(client, options.paths):
            with looking_for(path):
                client.download(path, out)
    return DONE


def download(
    client: Client, options: Namespace, plan: Iterator[Item], tally: Tally, remember: Received
) -> None:
    """Fetch what a plan finds, or only say so."""
    if options.dry_run:
        for item in tally.halting(plan):
            tally.plan(item.size)
            print(f"download {item.source} to {item.target}")
        return

    def fetch(items: Iterator[Item], progress: Progress) -> None:
        # By their entries, so that files here get the times of those there, and are known again by them.
        pairs = ((item.entry or item.source, item.target) for item in items)
        client.download_all(pairs, resume=options.resume, progress=progress, fetched=remember)

    transfer(plan, fetch, tally)


def _wanted(client: Client, sources: list[str], options: Namespace, tally: Tally) -> list[Wanted]:
    """What the words on the command line stand for; all of it is looked at before anything is fetched."""
    found: list[Wanted] = []
    for source in sources:
        path, content = contents_of(source)
        try:
            for match in expanded(client, [path], folder=options.recursive):
                entry = find(client, match, folder=options.recursive)
                if entry.is_folder and not options.recursive:
                    raise UsageMistake(f"'{match}' is a folder; add -r to fetch all that is in it.")
                found.append(Wanted(entry, "" if content else name_of(match)))
        except (ClientError, Missing, UsageMistake) as error:
            if not tally.goes_on:
                raise
            tally.failures[source] = error
    if len(found) > 1:
        refuse_twins(name for wanted in found for name in _names(client, wanted))
    return found


def _names(client: Client, wanted: Wanted) -> Iterator[str]:
    """Which names it takes in the target."""
    if wanted.name:
        yield wanted.name
    else:
        yield from (entry.name for entry in client.list(wanted.entry.path))
