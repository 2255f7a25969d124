import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from portico import logs

CANARY = "cAnArY0+/x"


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.BytesIO]:
    """Standard error that is not a terminal, with the logging of a worker."""
    root = logging.getLogger()
    before = (root.handlers, root.level, logs.requests.write)
    buffer = io.BytesIO()
    stderr = io.TextIOWrapper(buffer)
    monkeypatch.setattr(sys, "stderr", stderr)
    logs.configure("info")
    yield buffer
    structlog.reset_defaults()
    root.handlers, logs.requests.write = before[0], before[2]
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
    assert (line["request_id"], line["logger_name"], line["level"]) == (
        "0123456789abcdef",
        "asyncio",
        "error",
    )
    assert "ValueError: why" in line["exception"]
