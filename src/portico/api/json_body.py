"""A small JSON body, checked against what is expected."""

from typing import TypeVar

import msgspec
from starlette.requests import Request

from portico.api.request_body import read_small
from portico.api.requests import single_header
from portico.errors import InvalidRequest, UnsupportedMediaType

_MAX_BYTES = 64 * 1024

Body = TypeVar("Body", bound=msgspec.Struct)


async def read_json(request: Request, kind: type[Body], example: str) -> Body:
    """The body; `InvalidRequest` shows the `example` if it is not one of this kind."""
    if (single_header(request, "Content-Type") or "").partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType("Send the body as application/json.")
    try:
        return msgspec.json.decode(await read_small(request, _MAX_BYTES), type=kind)
    except msgspec.ValidationError as error:  # its text names the field, never the value
        raise InvalidRequest(f"The body is not as expected ({error}); send it like {example}.") from None
    except (ValueError, RecursionError):
        raise InvalidRequest(f"The body is not valid JSON; send it like {example}.") from None
