"""`portico find`."""

from types import SimpleNamespace

from portico.cli.console.exits import DONE
from portico.cli.remote.connect import connect
from portico.cli.remote.listing import shown
from portico.cli.remote.values import ago, parsed, report_missing
from portico.client.search import Criteria
from portico.settings import parsers


def find(options: SimpleNamespace) -> int:
    show = shown(options)
    criteria = _criteria(options)
    with connect(options) as client:
        for path in options.paths or ["/"]:
            with report_missing(path, folder=True):
                for entry in client.search(path, **criteria):
                    show(entry.path, entry)
    return DONE


def _criteria(options: SimpleNamespace) -> Criteria:
    criteria: Criteria = {}
    if options.name:
        criteria["name"] = options.name
        criteria["match_case"] = options.match_case
    if options.type:
        criteria["type"] = {"f": "file", "d": "folder"}.get(options.type, options.type)
    if options.larger:
        criteria["min_size"] = parsed("--larger", options.larger, parsers.size)
    if options.smaller:
        criteria["max_size"] = parsed("--smaller", options.smaller, parsers.size)
    if options.newer:
        criteria["modified_after"] = parsed("--newer", options.newer, ago)
    if options.older:
        criteria["modified_before"] = parsed("--older", options.older, ago)
    return criteria
