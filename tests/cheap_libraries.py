"""What libraries do at length for every client and every error, and no test looks at."""

import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import structlog
from cryptography.hazmat.primitives import serialization
from sqlalchemy.engine import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache


def without_public_authorities(patch: pytest.MonkeyPatch) -> None:
    """Do not load the public certificate authorities: 40 ms of CPU for every HTTP client, even if it never uses TLS. Test
    servers have certificates of their own, which are loaded."""
    load: Callable[..., None] = ssl.SSLContext.load_verify_locations
    public = set(_public_bundles())

    def load_others(context: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        if cafile is None or cafile not in public:
            load(context, cafile, capath, cadata)

    patch.setattr(ssl.SSLContext, "load_verify_locations", load_others)
    patch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: None)


def _public_bundles() -> Iterator[str | None]:
    paths = ssl.get_default_verify_paths()
    yield from (paths.cafile, paths.openssl_cafile)
    yield from map(os.environ.get, ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"))
    with suppress(ImportError):
        import certifi

        yield certifi.where()


def with_plain_tracebacks() -> None:
    """Until it is configured, structlog draws tracebacks in colours with all local variables, for a second of CPU."""
    *others, _ = structlog.get_config()["processors"]
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*others, renderer])


def without_checks_of_keys(patch: pytest.MonkeyPatch) -> None:
    """Do not test the numbers of an RSA key for being prime each time it is loaded, in which it takes 30 ms of CPU."""
    load = serialization.load_pem_private_key
    patch.setattr(serialization, "load_pem_private_key", partial(load, unsafe_skip_rsa_key_validation=True))


def with_shared_statements(patch: pytest.MonkeyPatch) -> None:
    """Compile each SQL statement once in a process. SQLAlchemy compiles it for every engine, and tests make hundreds of
    engines: without this, a third of a test of the API."""
    shared: LRUCache[Any, Any] = LRUCache(2000)
    # Compiled statements are kept by dialect. Those of one class differ in nothing here.
    patch.setattr(DefaultDialect, "__eq__", lambda dialect, other: type(dialect) is type(other))
    patch.setattr(DefaultDialect, "__hash__", lambda dialect: hash(type(dialect)))
    patch.setattr(Engine, "_compiled_cache", property(lambda _: shared, lambda *_: None), raising=False)
