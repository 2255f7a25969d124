"""What a client would like of an answer (`Prefer`, RFC 7240); what is malformed or unknown is passed over."""

from starlette.requests import Request

REPRESENTATION = "return=representation"


def prefers_representation(request: Request) -> bool:
    """Whether the client asks for what was stored in the answer, and not only for a status."""
    for preference in ",".join(request.headers.getlist("Prefer")).split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "return":  # the first one counts
            return value.strip().strip('"') == "representation"
    return False
