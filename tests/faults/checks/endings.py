"""What is ended on one node is refused by the other one within a second, and guests learn there what has become of a link."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2

from ...clusters import Cluster, running_cluster
from ...gateways import FILES, WAIT, wait_until
from ..figures import Effort, Figure, Lines, at_most, none_of
from .shares import LINKS, RIGHTS, SHARE_SESSIONS

ACCOUNT = "/backend/1.0.0/account"
AFTERWARDS = 5
"""Requests after the first refusal, which are all refused as well."""

Answer = tuple[int, str]
"""The status of an answer, and the code of its problem."""


class Endings:
    """Alice acts on one node; the other is asked by her other sessions, her keys and her guests, all the time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._here, self._there = (node.url for node in cluster.nodes)
        self._client = httpx2.Client(timeout=WAIT)
        self._token = ""
        self.longest = 0.0
        """Seconds after an end until the last request was sent that was still served."""
        self.wrong: list[str] = []
        self.tried = 0

    def run(self, all_of_them: bool) -> None:
        with self._client:
            self._command("user", "set", "alice", "--rights", RIGHTS)
            self._token = self._cluster.token(self._here)
            trials = [self._sessions, self._keys, self._links, self._moves, self._upload_under_way]
            for trial in [*trials, *([self._expiry, self._rights, self._disabled] if all_of_them else [])]:
                trial()

    # What is tried

    def _sessions(self) -> None:
        token = self._cluster.token(self._there)
        with self._ends("a session, by a sign-out", self._files(token), (401, "not-signed-in")):
            self._ask("POST", f"{self._here}/backend/logout", token)
        other = self._cluster.token(self._there)
        with self._ends("all other sessions", self._files(other), (401, "not-signed-in")):
            self._owner("DELETE", f"{ACCOUNT}/sessions")

    def _keys(self) -> None:
        key = self._owner("POST", f"{ACCOUNT}/keys", {"name": "key"})
        with self._ends("a key", self._files(key["key"]), (401, "not-signed-in")):
            self._owner("DELETE", f"{ACCOUNT}/keys/{key['id']}")

    def _links(self) -> None:
        link, guest = self._guest()
        ticket = self._ask("POST", f"{self._there}{FILES}/a.txt?action=TICKET", guest).json()["ticket"]
        with self._ends("a link", self._files(guest), (401, "not-signed-in")):
            self._owner("DELETE", f"{LINKS}/{link['id']}")
        self._expect("an ended link, opened", self._opened(link), (404, "not-found"))
        shown = self._client.get(f"{self._there}{FILES}/a.txt", params={"ticket": ticket})
        self._expect("a ticket of an ended link", _answer(shown), (401, "not-signed-in"))
        self._expect("its page", (self._client.get(f"{self._there}/s/{link['token']}").status_code, ""), (404, ""))
        link, _ = self._guest()
        with self._ends("the former address", lambda: self._opened(link), (404, "not-found"), 201):
            self._owner("POST", f"{LINKS}/{link['id']}/address")

    def _expiry(self) -> None:
        end = datetime.now(UTC) + timedelta(seconds=3)
        link, guest = self._guest(expiresAt=end.isoformat())
        with self._ends("a link that expires", self._files(guest), (401, "not-signed-in")):
            time.sleep(max(0.0, (end - datetime.now(UTC)).total_seconds()))
        self._expect("an expired link, opened", self._opened(link), (404, "not-found"))

    def _moves(self) -> None:
        link, guest = self._guest()
        self._owner("POST", f"{FILES}/box?action=MOVE&target=/renamed")
        wait_until(lambda: self._files(guest)() == (200, ""), "the link follows its folder")
        self._expect("the same, opened", self._opened(link), (201, ""))
        with self._ends("a folder that is deleted", self._files(guest), (404, "target-gone")):
            self._owner("DELETE", f"{FILES}/renamed?recursive=true")
        self._ask("PUT", f"{self._here}{FILES}/renamed", self._token, content=b"a file now")
        self._expect("a folder that was replaced by a file", self._files(guest)(), (404, "target-gone"))
        self._expect("the same, opened", self._opened(link), (404, "target-gone"))
        self._owner("DELETE", f"{FILES}/renamed")

    def _upload_under_way(self) -> None:
        link, guest = self._guest(kind="both")

        def content() -> Iterator[bytes]:
            yield b"x" * 2**16
            self._owner("DELETE", f"{LINKS}/{link['id']}")
            yield b"y"

        stored = self._ask("PUT", f"{self._there}{FILES}/late.txt", guest, content=content())
        self._expect("an upload that outlives its link", _answer(stored), (401, "not-signed-in"))
        found = self._ask("GET", f"{self._there}{FILES}/box/late.txt?action=STAT", self._token)
        self._expect("what it has left", _answer(found), (404, "not-found"))

    def _rights(self) -> None:
        link, guest = self._guest()
        for right, left in (("share", "list,download,upload"), ("download", "list,upload,share")):
            with self._ends(f"the right to {right}", self._files(guest), (401, "not-signed-in")):
                self._command("user", "set", "alice", "--rights", left)
            self._expect("a link without that right, opened", self._opened(link), (404, "not-found"))
            self._command("user", "set", "alice", "--rights", RIGHTS)
            wait_until(lambda: self._files(guest)() == (200, ""), "the link can be used again")
        with self._ends("another root", self._files(guest), (401, "not-signed-in")):
            self._command("user", "set", "alice", "--root", "/elsewhere")
        self._command("user", "set", "alice", "--root", "/alice")

    def _disabled(self) -> None:
        link, guest = self._guest()
        key = self._owner("POST", f"{ACCOUNT}/keys", {"name": "another"})["key"]
        with self._ends("a guest of a disabled owner", self._files(guest), (401, "not-signed-in")):
            self._command("user", "disable", "alice")
        self._expect("a key of a disabled owner", self._files(key)(), (401, "not-signed-in"))
        self._expect("a link of a disabled owner, opened", self._opened(link), (404, "not-found"))
        self._command("user", "enable", "alice")

    # How

    @contextmanager
    def _ends(self, what: str, ask: Callable[[], Answer], refusal: Answer, served: int = 200) -> Iterator[None]:
        """What is done within this has to end what `ask` was given until then."""
        self._expect(f"{what}, before", (ask()[0], ""), (served, ""))
        yield
        ended = time.monotonic()
        while True:
            asked = time.monotonic() - ended
            answer = ask()
            if answer != (served, ""):
                break
            self.longest = max(self.longest, asked)
            assert asked < WAIT, f"{what} has not ended"
        for _ in range(AFTERWARDS):
            self._expect(what, answer, refusal)
            answer = ask()

    def _expect(self, what: str, found: Answer, wanted: Answer) -> None:
        self.tried += 1
        if found != wanted:
            self.wrong.append(f"{what}: {found}")

    def _guest(self, **options: Any) -> tuple[dict[str, Any], str]:
        """A new link to a folder with a file, and a guest of the other node."""
        self._ask("PUT", f"{self._here}{FILES}/box/a.txt", self._token, content=b"content")
        link = self._owner("POST", LINKS, {"path": "/box", **options})
        opened = self._client.post(self._there + SHARE_SESSIONS, json={"link": link["token"]})
        assert opened.status_code == 201, opened.text
        return link, opened.json()["token"]

    def _opened(self, link: dict[str, Any]) -> Answer:
        return _answer(self._client.post(self._there + SHARE_SESSIONS, json={"link": link["token"]}))

    def _files(self, token: str) -> Callable[[], Answer]:
        return lambda: _answer(self._ask("GET", f"{self._there}{FILES}/", token))

    def _owner(self, method: str, address: str, body: dict[str, Any] | None = None) -> Any:
        answer = self._ask(method, self._here + address, self._token, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def _ask(self, method: str, url: str, token: str, **options: Any) -> httpx2.Response:
        header = {"Authorization": f"Bearer {token}"}
        return self._client.request(method, url, headers=header, **options)

    def _command(self, *words: str) -> None:
        self._cluster.nodes[0].command(*words)


def _answer(answer: httpx2.Response) -> Answer:
    return answer.status_code, "" if answer.status_code < 400 else answer.json()["code"]


def end_everything(cluster: Cluster, *, all_of_them: bool) -> list[Figure]:
    """Without `all_of_them`, only what needs neither a command nor a wait."""
    endings = Endings(cluster)
    endings.run(all_of_them)
    return [
        none_of("after an end on one node, the other answers otherwise", endings.tried, endings.wrong),
        at_most("the last request that it serves, after the end", 1, endings.longest, "s"),
    ]


async def endings(effort: Effort) -> list[Figure]:
    with running_cluster(effort.new_folder()) as cluster:
        return await asyncio.to_thread(end_everything, cluster, all_of_them=True)


LINES: Lines = {"endings": endings}
