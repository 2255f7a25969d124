"""Both sides of a comparison over the same folder, and the lines that come of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.processes import Process, metered
from bench.servers import PASSWORD, Home, Nginx, Portico, RcloneRcd, basic, nginx_program
from bench.sftpgo.peer import Sftpgo
from bench.table import Contestant, Figure, Line, Sample, in_turns, rate_line, time_line
from bench.workspace import Workspace, say

GROUP = "against SFTPGo"
OURS, NO_TRASH, SFTPGO, MEMORY, ATOMIC, NGINX, RCLONE, RCLONE_USER = (
    "Portico",
    "Portico, without trash",
    "SFTPGo",
    "SFTPGo, users in memory",
    "SFTPGo, atomic",
    "nginx",
    "rclone rcd",
    "rclone rcd, with a password",
)
NOTES = {
    SFTPGO: "SFTPGo as it comes: users in SQLite, uploads written in place. It syncs nothing.",
    MEMORY: "'users in memory': SFTPGo without a database. It forgets its users when it stops.",
    ATOMIC: "'atomic': SFTPGo's upload_mode 1: uploads are written beside their place and renamed, as Portico does.",
    RCLONE: "rclone rcd knows no users; 'with a password' it asks for one with each request, otherwise for nothing.",
    NGINX: "nginx: 2 workers, no users, no log; what a file server can do at most on this machine.",
}
_LINE_SECONDS = 45.0


@dataclass(frozen=True)
class Plan:
    """Which lines are wanted, and how often."""

    work: Workspace
    rounds: int = 5
    lines: frozenset[str] = frozenset()
    """Their names; none: all."""
    request_log: bool = False
    seconds: float = 1.0
    """How long a round of many small requests takes."""
    missing: str = ""
    """Why there is no SFTPGo, if so."""
    group: str = GROUP

    def wants(self, *names: str) -> bool:
        return not self.lines or not self.lines.isdisjoint(names)

    def run(self, unit: str, contestants: Mapping[str, Contestant], what: str) -> dict[str, Figure]:
        say(f"{self.group}: {what}")
        return in_turns(self.rounds, unit, contestants, _LINE_SECONDS)

    def rates(
        self,
        what: str,
        figures: Mapping[str, Figure],
        goals: Mapping[str, float] | None = None,
        cpu_goal: float | None = None,
        note: str = "",
    ) -> list[Line]:
        """Ours against each of the others. More is better."""
        return self._lines(rate_line, what, figures, goals or {}, cpu_goal, note)

    def times(
        self,
        what: str,
        figures: Mapping[str, Figure],
        goals: Mapping[str, float] | None = None,
        cpu_goal: float | None = None,
        note: str = "",
    ) -> list[Line]:
        """The same, where less is better."""
        return self._lines(time_line, what, figures, goals or {}, cpu_goal, note)

    def _lines(
        self,
        kind: Callable[..., Line],
        what: str,
        figures: Mapping[str, Figure],
        goals: Mapping[str, float],
        cpu_goal: float | None,
        note: str,
    ) -> list[Line]:
        ours = figures[OURS]
        lines = []
        if SFTPGO not in figures:
            lines.append(Line(self.group, what, ours, f"{SFTPGO}: {self.missing}", note=note))
        for name, theirs in figures.items():
            if name != OURS:
                lines.append(kind(self.group, what, ours, name, theirs, goals.get(name), note or NOTES.get(name, "")))
                if name == SFTPGO:
                    lines.append(self._processor(what, ours, theirs, cpu_goal))
        return lines

    def _processor(self, what: str, ours: Figure, theirs: Figure, goal: float | None) -> Line:
        mine, its = ((figure.each or figure.cpu * 1000) for figure in (ours, theirs))
        ratio = its / mine if mine else None
        return Line(
            self.group, f"  … {what}: processor time", Figure(mine, "ms"), SFTPGO, Figure(its, "ms"), ratio, goal
        )


class Arena:
    """Portico and its peers, all of them with the same folder, or each with its own one in it."""

    def __init__(self, plan: Plan, name: str, top: Path, *, tls: bool = False, workers: int = 2) -> None:
        self.plan, self.work, self.top, self.tls = plan, plan.work, top, tls
        self.servers: dict[str, Any] = {}
        self.headers: dict[str, dict[str, str]] = {}
        self._name, self._workers = name, workers

    def __enter__(self) -> "Arena":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers.values():
            server.stop()

    def add_portico(self, s3: dict[str, str] | None = None) -> None:
        home = Home(self.work, f"home-{self._name}")
        if s3:
            home.add("bench", "s3", **s3)
        else:
            home.add("bench", "local", folder=str(self.top))
        self._add(OURS, Portico(home, tls=self.tls, workers=self._workers, request_log=self.plan.request_log))
        self.headers[OURS] = self.servers[OURS].bearer("bench")

    def add_sftpgo(self, name: str = SFTPGO, folder: Path | None = None, **options: Any) -> None:
        """Not if it cannot be built: then the lines say so."""
        if self.plan.missing:
            return
        options = {"tls": self.tls, "request_log": self.plan.request_log, **options}
        self._add(name, Sftpgo(self.work, folder or self.top, **options))
        self.headers[name] = self.servers[name].bearer()

    def add_nginx(self, folder: Path | None = None, temporary: Path | None = None) -> None:
        if nginx_program():
            self._add(NGINX, Nginx(self.work, folder or self.top, tls=self.tls, temporary=temporary))

    def add_rclone(self, name: str = RCLONE, **options: Any) -> None:
        self._add(name, RcloneRcd(self.work, tls=self.tls, password=name == RCLONE_USER, **options))
        self.headers[name] = basic("bench", PASSWORD) if name == RCLONE_USER else {}

    def _add(self, name: str, server: Process) -> None:
        self.servers[name] = server
        self.headers[name] = {}

    def contestant(
        self, name: str, work: Callable[..., Any], *arguments: Any, sample: Callable[[Any], Sample], **more: Any
    ) -> Contestant:
        """`work` is done in a process of its own, whose processor time is that of the load generator."""
        return Contestant(partial(_sampled, sample, work, *arguments), self.servers[name], **more)


def _sampled(sample: Callable[[Any], Sample], work: Callable[..., Any], *arguments: Any) -> Sample:
    result, client = metered(work, *arguments)
    found = sample(result)
    return Sample(found.value, found.extra, found.requests, client)
