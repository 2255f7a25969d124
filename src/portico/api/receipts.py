"""What an upload stored, with a signed receipt for each file; and the key by which receipts can be verified."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from portico.api.digests import digest_text
from portico.api.requests import services_of
from portico.api.schemas import JsonResponse, StoredBody, StoredEntryBody, entry_bodies
from portico.model.entries import Entry
from portico.model.paths import Path
from portico.operations.operations import Operations

REPRESENTATION = "return=representation"


def representation(
    operations: Operations,
    folder: Path,
    entries: list[Entry],
    digests: Mapping[str, bytes],
    *,
    receipts: bool = True,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The stored files, in the order in which they were sent. `digests`: their SHA-256 by name, if it is known."""
    bodies = entry_bodies(folder, entries, StoredEntryBody)
    for body, entry in zip(bodies, entries, strict=True):
        sha256 = digests.get(entry.name)
        if entry.etag:
            body.etag = entry.etag
        if sha256:
            body.digest = digest_text(sha256)
        if receipts:
            receipt = operations.files.receipt(folder.child(entry.name), entry, sha256)
            body.stored_at, body.receipt_id, body.receipt = receipt.stored_at, receipt.id, receipt.text
    return JsonResponse(StoredBody(bodies), status, {"Preference-Applied": REPRESENTATION, **(headers or {})})


async def receipt_key(request: Request) -> Response:
    """The public key as a JWK set (RFC 7517). It changes only with the gateway's secret key."""
    return Response(
        services_of(request).gateway.receipts.key_set,
        media_type="application/jwk-set+json",
        headers={"Cache-Control": "public, max-age=3600"},
    )
