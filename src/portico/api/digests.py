"""Digests that are announced with a body, or asked for.

`Content-Digest` and `Repr-Digest` are those of RFC 9530, `Digest` is their predecessor (RFC 3230) and `Content-MD5` that
of RFC 1864. They come with a request, for its whole body, or in the headers of a part, for the content of that part.
Content is never coded here, so that what is sent and what it represents have the same digest.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable

from starlette.requests import Request

from portico.model.errors import ChecksumMismatch, InvalidRequest
from portico.operations.files.digests import ALGORITHMS, SHA_256, ExpectedDigest

_FIELDS = {
    "content-md5": "Content-MD5",
    "content-digest": "Content-Digest",
    "repr-digest": "Repr-Digest",
    "digest": "Digest",
}
_TUS_NAMES = {"sha": "sha1"}
CHECKSUMS = {_TUS_NAMES.get(name, name.replace("-", "")): name for name in ALGORITHMS}
"""The algorithms as tus calls them."""
FIELDS = frozenset({*(name.encode() for name in _FIELDS), b"trailer"})
"""Headers that may announce a digest."""
_WANTED = frozenset(map(str, range(1, 11)))
_MEMBER = re.compile(r"\s*([A-Za-z*][\w.*-]*)=(:?)([A-Za-z0-9+/]*={0,2})(:?)(?:\s*;.*)?\s*", re.ASCII)


def digests_of(headers: Iterable[tuple[str, str]]) -> list[ExpectedDigest]:
    """What these headers say about the body behind them; `InvalidRequest` if that cannot be verified."""
    expected: list[ExpectedDigest] = []
    seen: set[str] = set()
    for name, value in headers:
        name = name.lower()
        if name in _FIELDS:
            if name == "content-md5" and name in seen:
                raise InvalidRequest("The header Content-MD5 appears twice; send it once.")
            seen.add(name)
            if name == "content-md5":
                expected.append(ExpectedDigest(_FIELDS[name], "md5", _decoded(_FIELDS[name], "md5", value.strip())))
            else:
                expected += _members(_FIELDS[name], value)
        elif name == "trailer" and not _FIELDS.keys().isdisjoint(map(str.strip, value.lower().split(","))):
            raise InvalidRequest("Digests in trailers can't be verified; send the digest as a header.")
    return expected


def wants_sha256(request: Request) -> bool:
    """Whether `Want-Repr-Digest` (RFC 9530, 4) asks for the one digest that is computed here."""
    for member in ",".join(request.headers.getlist("Want-Repr-Digest")).split(","):
        algorithm, _, preference = member.partition("=")
        if algorithm.strip().lower() == SHA_256:
            return preference.strip() in _WANTED
    return False


def digest_text(sha256: bytes) -> str:
    return f"{SHA_256}=:{b64encode(sha256).decode()}:"


def checksum_of(text: str) -> ExpectedDigest:
    """What `Upload-Checksum` of tus says: an algorithm by another name, and the value in Base64."""
    name, _, value = text.partition(" ")
    algorithm = CHECKSUMS.get(name.lower())
    if algorithm is None:
        raise InvalidRequest(f"This checksum algorithm isn't supported; use one of {', '.join(CHECKSUMS)}.")
    field = "Upload-Checksum"
    return ExpectedDigest(field, algorithm, _decoded(field, algorithm, value.strip()), ChecksumMismatch)


def _members(field: str, text: str) -> list[ExpectedDigest]:
    """The digests of one field. Several say the same; one that is not known here is passed over beside one that is."""
    found: list[ExpectedDigest] = []
    for member in text.split(","):
        match = _MEMBER.fullmatch(member)
        # RFC 9530 puts the value between colons, RFC 3230 does not.
        if match is None or {match[2], match[4]} != ({""} if field == "Digest" else {":"}):
            example = "sha-256=Base64" if field == "Digest" else "sha-256=:Base64:"
            raise InvalidRequest(f"{field} is malformed; write it like {example}.")
        algorithm = match[1].lower()
        if algorithm in ALGORITHMS:
            found.append(ExpectedDigest(field, algorithm, _decoded(field, algorithm, match[3])))
    if not found:
        raise InvalidRequest(
            f"{field} has no supported algorithm; use one of {', '.join(ALGORITHMS)}, or leave it out."
        )
    return found


def _decoded(field: str, algorithm: str, text: str) -> bytes:
    try:
        value = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        value = b""
    size = ALGORITHMS[algorithm]().digest_size
    if len(value) != size:
        raise InvalidRequest(f"{field} has no valid {algorithm} digest; encode its {size} bytes as Base64.")
    return value
