"""An S3 in memory: moto's server, one for the whole run."""

import atexit
from functools import cache

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
