"""Media types for schemathesis that it does not know by itself."""

from typing import Any

import schemathesis

from portico.api.tus import MEDIA_TYPE


@schemathesis.serializer(MEDIA_TYPE)  # type: ignore[untyped-decorator]
def octets(_: object, value: Any) -> bytes:
    return getattr(value, "data", None) or str(value).encode()
