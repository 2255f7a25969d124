import io
import json
import logging
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from portico.observability import logs

CANARY = "cAnArY0+/x"


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.BytesIO]:
    """Standard error that is not a terminal, with the logging of a worker."""
    root = logging.getLogger()
    before = (root.handlers, root.level)
    structure = structlog.get_config()
    buffer = io.BytesIO()
    stderr = io.TextIOWrapper(buffer)
    monkeypatch.setattr(sys, "stderr", stderr)
    logs.configure("info")
    yield buffer
    structlog.configure(**structure)
    root.handlers = before[0]
    root.setLevel(before[1])


def lines(stream: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(
    "text",
    [
        f"GET https://a.blob.core.windows.net/c?sv=1&sig={CANARY}&se=2",
        f"https://b.s3.amazonaws.com/k?X-Amz-Signature={CANARY}&X-Amz-Credential={CANARY}",
        f"x-amz-security-token: {CANARY}",
        f"Authorization: Bearer {CANARY}",
        f"{{'Authorization': 'AWS4-HMAC-SHA256 Credential=AKIA/20260101, Signature={CANARY}'}}",
        f"SharedKey account:{CANARY}",
        f"DefaultEndpointsProtocol=https;AccountKey={CANARY};AccountName=a",
        f'{{"access_token": "{CANARY}", "refresh_token":"{CANARY}"}}',
        f"grant_type=password&username=web&password={CANARY}",
        f"/backend/1.0.0/filesystem/a?ticket={CANARY}",
        f"/backend/1.0.0/filesystem/?cursor={CANARY}",
        f"postgresql://portico:{CANARY}@db/portico",
        f"postgresql://portico:p@{CANARY}@db/portico",
        f"aws_secret_access_key={CANARY}",
        f"{{'SecretAccessKey': '{CANARY}', 'SessionToken': '{CANARY}'}}",
        f"<SecretAccessKey>{CANARY}</SecretAccessKey>",
        f"db_password: {CANARY}",
        f"password='a {CANARY} b'",
        f'"private_key": "-----BEGIN PRIVATE KEY-----{CANARY}-----END PRIVATE KEY-----"',
        f"PORTICO_SECRET_KEY={CANARY}",
        f"a?password%3D{CANARY}",
    ],
)
def test_secrets_in_the_words_of_others_are_cut_out(stream: io.BytesIO, text: str) -> None:
    log = structlog.get_logger()
    log.warning("cause", cause=text)
    try:
        raise RuntimeError(text)
    except RuntimeError as error:
        log.error("bug", exc_info=error)
    logging.getLogger("some.sdk").warning("it said %s", text)
    assert CANARY not in stream.getvalue().decode()
    assert [line["event"] for line in lines(stream)] == ["cause", "bug", "library"]


@pytest.mark.parametrize(
    "text",
    [
        f"https://b.test/{CANARY}:x/ postgresql://portico:{CANARY}@db/portico, amqp://u:{CANARY}@q",
        f"(https://host:443/a,mysql://portico:{CANARY}@db)",
        f'password="{CANARY}',
        f"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxsecret={CANARY}",
    ],
)
def test_secrets_beside_other_words_are_cut_out(text: str) -> None:
    assert CANARY not in logs.redacted(text.replace(f"b.test/{CANARY}", "b.test/x"))


SECRETS_BEFORE_A_CUT = (
    "password=",
    'password="a b',
    "Bearer ",
    "postgresql://portico:",
    "-----BEGIN PRIVATE KEY-----\n",
    "https://b.test/k?X-Amz-Signature=",
)


@pytest.mark.parametrize("beginning", SECRETS_BEFORE_A_CUT)
def test_a_secret_that_a_cut_goes_through_is_cut_out(beginning: str) -> None:
    """A long text loses its end, and with it the sign by which a secret ends: the quote, the @."""
    for kept in range(3, len(CANARY) + 1):
        filling = "x" * (logs._MAX_LENGTH - len(beginning) - kept - 1)
        shown = logs.redacted(f"{filling} {beginning}{CANARY}@host" + "y" * 100)
        assert CANARY[:kept] not in shown.removeprefix(filling)
        assert shown.endswith("characters)")


HOSTILE = {
    "users without a host": "a://b:",
    "names of headers": "x-amz-",
    "names of secrets": "token",
    "names of secrets, joined": "token_",
    "authorizations": "Bearer ",
    "keys that begin": "-----BEGIN a-----",
    "keys that end": "-----END a-----",
    "quotes": "secret='",
    "dots": ".",
    "underscores": "_",
    "blanks": "token          ",
    "addresses": "a://b:c@",
}


def processor_time(text: str) -> float:
    """Seconds for one search, the best of several."""
    costs = []
    for _ in range(5):
        began = time.process_time()
        logs.redacted(text)
        costs.append(time.process_time() - began)
    return min(costs)


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_the_search_for_secrets_is_linear(monkeypatch: pytest.MonkeyPatch, piece: str) -> None:
    """Four times the text costs about four times as much, not sixteen times."""
    monkeypatch.setattr(logs, "_MAX_LENGTH", 2**30)
    short, long = (piece * (size // len(piece)) for size in (32 * 1024, 128 * 1024))
    assert processor_time(long) < 9 * processor_time(short)


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_what_is_searched_for_secrets_is_bounded(piece: str) -> None:
    """However long a text of a service is, its search costs what the search of its beginning costs."""
    longest = piece * (2**22 // len(piece))
    assert len(logs.redacted(longest)) <= logs._MAX_LENGTH + 100
    assert processor_time(longest) < 20 * processor_time(longest[: logs._MAX_LENGTH]) + 0.001


def test_a_page_of_odd_names_writes_few_lines(stream: io.BytesIO) -> None:
    for number in range(1000):
        structlog.get_logger().warning("left-out-of-listing", key=f"a\\{number}")
    structlog.get_logger().warning("cause", cause="why")
    found = lines(stream)
    assert found[-1]["event"] == "cause"
    assert logs.RateLimitedEvents.MAX_PER_SECOND <= len(found) - 1 < 100


def test_lines_that_were_dropped_are_counted() -> None:
    now = [0.0]
    sparing = logs.RateLimitedEvents(lambda: now[0])
    for _ in range(logs.RateLimitedEvents.MAX_PER_SECOND):
        sparing(None, "", {"event": "left-out-of-listing"})
    for _ in range(7):
        with pytest.raises(structlog.DropEvent):
            sparing(None, "", {"event": "left-out-of-listing"})
    sparing(None, "", {"event": "cause"})
    now[0] = 1.0
    assert sparing(None, "", {"event": "left-out-of-listing"}) == {"event": "left-out-of-listing", "dropped": 7}


def test_plain_words_stay(stream: io.BytesIO) -> None:
    text = "AccessDenied: the key may not list bucket 'a-b': allow s3:ListBucket (request 4711, https://s3.test/b?list-type=2)"
    assert logs.redacted(text) == text


def test_what_libraries_log_has_the_request_id(stream: io.BytesIO) -> None:
    token = logs.REQUEST_ID.set("0123456789abcdef")
    logging.getLogger("asyncio").error("a task failed", exc_info=ValueError("why"))
    logging.getLogger("botocore").debug("too much")
    logging.getLogger("botocore").log(35, "a level of its own")
    logs.REQUEST_ID.reset(token)
    line, odd = lines(stream)
    assert (odd["level"], odd["message"]) == ("warning", "a level of its own")
    assert (line["request_id"], line["logger_name"], line["level"]) == ("0123456789abcdef", "asyncio", "error")
    assert "ValueError: why" in line["exception"]


def test_lines_name_the_node(stream: io.BytesIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(stream))
    requests = logs.configure("info", "files-1")
    structlog.get_logger().warning("cause", cause="x")
    requests(logs.RequestLine("GET", "/", 200, 0, 1.0, "192.0.2.7", "web", "id"))
    assert [each["node"] for each in lines(stream)] == ["files-1", "files-1"]


@pytest.mark.parametrize("at_terminal", [False, True])
def test_deceptive_names_are_escaped(stream: io.BytesIO, monkeypatch: pytest.MonkeyPatch, at_terminal: bool) -> None:
    lie = "/Rechnung\u202efdp.exe"
    stderr = io.TextIOWrapper(stream, encoding="utf-8")
    monkeypatch.setattr(stderr, "isatty", lambda: at_terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    requests = logs.configure("info")
    structlog.get_logger().warning("not-removed", path=lie)
    requests(logs.RequestLine("GET", lie, 200, 0, 1.0, "127.0.0.1", "web", "1"))
    stderr.flush()
    text = stream.getvalue().decode()
    assert text.count("Rechnung\\u202efdp.exe") == 2
    assert "\u202e" not in text
    if not at_terminal:
        assert [line["path"] for line in lines(stream)] == [lie, lie]
