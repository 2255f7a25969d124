"""Faults for the proxy, and which calls they apply to."""

from ..servers.proxy import Call, Reply
from .test_uploads import LARGE

HUGE = LARGE * 8
"""More than the socket buffers hold, so that a request that is cut early was not sent completely."""

BUSY = Reply(503, {"Retry-After": "1", "Content-Type": "application/problem+json"}, b'{"code":"unavailable"}')
AWAY = Reply(503, {}, b'{"code":"provider-unavailable","detail":"It is away."}')


def anything(call: Call) -> bool:
    return True


def is_upload(call: Call) -> bool:
    return call.method in ("POST", "PUT") and "action" not in call.target
