"""Sign-ins, and how a flood of them slows down signed-in users."""

import time
from multiprocessing import get_context

from argon2 import PasswordHasher

from bench.load import Target, hammer, request
from bench.processes import apart
from bench.servers import FILES, PASSWORD, Home, Portico
from bench.table import Contestant, Figure, Line, Sample, in_turns, rate_line, share_line
from bench.workspace import Workspace, say
from portico.accounts.passwords import LANES, MEMORY_KIB, PASSES

GROUP = "logins"
_FLOODED = (200, 400, 429, 503)
"""Acceptable statuses of a sign-in during a flood."""


def measure(work: Workspace, quick: bool) -> list[Line]:
    say("logins: per second, and listings during a flood")
    folder = work.make("logins")
    for number in range(1000):
        (folder / f"file-{number:04d}.txt").touch()
    time.sleep(2.2)  # until the folder's mtime is trusted
    home = Home(work, "home-logins")
    home.add("files", "local", folder=str(folder))
    gateway = Portico(home)
    seconds, rounds = (1.0, 1) if quick else (2.0, 2)
    headers, body = gateway.login_request("files")
    login = request("POST", "/backend/login", headers, body)
    page = request("GET", f"{FILES}/?size=250", gateway.bearer("files"))
    key = {"Authorization": f"Bearer {gateway.home.key('files')}"}
    keyed = request("GET", f"{FILES}/?size=250", key)
    try:
        by_credential = in_turns(
            rounds,
            "/s",
            {
                "key": Contestant(lambda: _listings(gateway.target, keyed, seconds), gateway),
                "token": Contestant(lambda: _listings(gateway.target, page, seconds), gateway),
            },
        )
        figures = in_turns(
            rounds,
            "/s",
            {
                "login": Contestant(lambda: _succeeded(gateway.target, login, seconds), gateway),
                "bare": Contestant(lambda: Sample(apart(_verifications, seconds / 2))),
            },
        )
        quiet = in_turns(rounds, "ms", {"page": Contestant(lambda: _latency(gateway.target, page, seconds), gateway)})
        with_flood = in_turns(
            rounds, "ms", {"page": Contestant(lambda: _during_flood(gateway.target, page, login, seconds), gateway)}
        )
    finally:
        gateway.stop()
    flooded = with_flood["page"]
    lines = [
        rate_line(GROUP, "logins, 8 connections", figures["login"], "bare verifications, 1 thread", figures["bare"]),
        share_line(GROUP, "page of 250 during a flood of logins, p50", flooded, "without it", quiet["page"]),
    ]
    p99 = Figure(flooded.extra["p99 ms"], "ms"), Figure(quiet["page"].extra["p99 ms"], "ms")
    return [
        *lines,
        rate_line(GROUP, "pages of 250 with an API key", by_credential["key"], "with a token", by_credential["token"]),
        share_line(GROUP, "page of 250 during a flood of logins, p99", p99[0], "without it", p99[1]),
    ]


def _listings(target: Target, page: bytes, seconds: float) -> Sample:
    rates = apart(hammer, target, [page], 8, seconds)
    return Sample(rates.rate, {"p99 ms": rates.p99 * 1000})


def _succeeded(target: Target, login: bytes, seconds: float) -> Sample:
    rates = apart(hammer, target, [login], 8, seconds, _FLOODED)
    share = rates.succeeded / rates.count
    return Sample(rates.rate * share, {"p99 ms": rates.p99 * 1000, "succeeded": share})


def _latency(target: Target, page: bytes, seconds: float) -> Sample:
    rates = apart(hammer, target, [page], 1, seconds)
    return Sample(rates.p50 * 1000, {"p99 ms": rates.p99 * 1000})


def _during_flood(target: Target, page: bytes, login: bytes, seconds: float) -> Sample:
    flood = get_context("fork").Process(target=hammer, args=(target, [login], 32, seconds + 1, _FLOODED))
    flood.start()
    time.sleep(0.5)
    try:
        return _latency(target, page, seconds)
    finally:
        flood.join()


def _verifications(seconds: float) -> float:
    """Per second, of one password, with the parameters that Portico hashes with."""
    hasher = PasswordHasher(PASSES, MEMORY_KIB, LANES)
    hashed = hasher.hash(PASSWORD)
    count, began = 0, time.perf_counter()
    while time.perf_counter() < began + seconds:
        hasher.verify(hashed, PASSWORD)
        count += 1
    return count / (time.perf_counter() - began)
