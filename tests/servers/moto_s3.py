"""An S3 in memory: moto's server, one for the whole run."""

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

KEYS = {"access-key-id": "portico-test", "secret-access-key": "portico-test-secret"}


@cache
def moto_s3() -> str:
    """The server's address; it is started when it is first asked for."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    atexit.register(server.stop)
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


@contextmanager
def moto_buckets(*names: str) -> Iterator[None]:
    """New buckets, removed with all that they hold. Behind the server's back: by its interface this took longer than
    most tests that need one."""
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for name in names:
        backend.create_bucket(name, "us-east-1")
    try:
        yield
    finally:
        for name in names:
            bucket = backend.buckets[name]
            for content in (bucket.keys, bucket.multiparts):
                for thing in content.values():
                    thing.dispose()
                content.clear()
            backend.delete_bucket(name)
