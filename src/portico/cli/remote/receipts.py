"""The keys of gateways, and the verification of receipts: a compact JWS with Ed25519 over JSON."""

import binascii
import hashlib
import json
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from io import BufferedReader
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from portico.cli.console.exits import Missing, UsageMistake
from portico.cli.console.output import tell
from portico.cli.console.terminal import read_standard_input
from portico.cli.remote.connect import connect
from portico.client.auth import profiles
from portico.client.errors import NotAGateway, ProfileUnusable
from portico.client.http.effects import Request
from portico.model.errors import PorticoError
from portico.runtime.private_files import write_private

ADDRESS = "/backend/1.0.0/receipts/key"
_MAX_TEXT = 64 * 2**20


Keys = dict[str, dict[str, Any]]
"""JWKs by their ids."""


class NotVerified(PorticoError, code="not-verified"):
    """The receipt is not valid, or not one for this file."""


def fetch_key(options: SimpleNamespace) -> None:
    with connect(options) as gateway:
        keys = gateway.run(gateway.session.request(Request("GET", ADDRESS))).json()
        url = gateway.url
    if not (by_id := _by_id(keys)):
        raise NotAGateway("The gateway returned no key; it may be too old for receipts.")
    _keep(by_id)
    text = json.dumps(keys, indent=2) + "\n"
    if options.output == "-":
        sys.stdout.write(text)
        return
    if options.output:
        Path(options.output).write_text(text, encoding="utf-8")
    print(f"Saved the key of {url} in {_kept_file()}.")


def verify_receipt(options: SimpleNamespace) -> None:
    try:
        import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: F401
    except ImportError:
        raise NotVerified(
            "Verifying receipts needs the package cryptography; install it with: pip install "
            "'portico-gateway[receipts]'"
        ) from None
    receipts = _receipts(options.receipt)
    keys = _read_keys(options.key) if options.key else _kept()
    with _opened(options.file) as stream:
        sha256, size = hashlib.file_digest(stream, "sha256").hexdigest(), stream.tell()
    claims = [_verified(receipt, keys) for receipt in receipts]
    fitting = [each for each in claims if (each.get("size"), each.get("sha256")) == (size, sha256)]
    if not fitting:
        raise NotVerified(_difference(options.file, size, sha256, claims))
    (claim, *_) = fitting
    issuer = f" at {claim['issuer']}" if claim.get("issuer") else ""
    text = (
        f"{options.file} is what was stored as {claim.get('path')} for {claim.get('user')}{issuer} on "
        f"{claim.get('storedAt')} ({size} bytes, SHA-256 {sha256}, receipt {claim.get('id')})."
    )
    tell(text, claim, as_json=options.as_json)


def _opened(file: str) -> BufferedReader:
    try:
        return open(file, "rb")
    except FileNotFoundError:
        raise Missing(f"The file '{file}' doesn't exist.", folder=False) from None


def _read(file: str) -> str:
    if file == "-":
        return read_standard_input()
    try:
        with _opened(file) as stream:
            return stream.read(_MAX_TEXT).decode()
    except UnicodeDecodeError:
        raise NotVerified(f"{file} is not a text file; choose a file with a receipt.") from None


def _receipts(file: str) -> list[str]:
    """The receipts in a file: one as it is, or all in a response of the gateway, or in the output of `put --json`."""
    text = _read(file).strip()
    if text.count(".") == 2 and not text.startswith("{"):
        return [text]
    found: list[str] = []
    try:
        try:
            _collect(json.loads(text), found)
        except ValueError:  # one object per line
            for line in text.splitlines():
                _collect(json.loads(line), found)
    except (ValueError, RecursionError):
        found = []
    if not found:
        raise NotVerified(f"{'Standard input' if file == '-' else file} contains no receipt.")
    return found


def _collect(value: Any, found: list[str]) -> None:
    if isinstance(value, dict):
        if isinstance(receipt := value.get("receipt"), str):
            found.append(receipt)
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _collect(each, found)


def _verified(receipt: str, keys: Keys) -> dict[str, Any]:
    """What a receipt says, if a known gateway has signed it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        head, body, signature = receipt.split(".")
        header, claims = json.loads(_decoded(head)), json.loads(_decoded(body))
        signed = _decoded(signature)
        if header["alg"] != "EdDSA" or not isinstance(claims, dict):
            raise ValueError
        key = keys.get(str(header["kid"]))
    except (ValueError, TypeError, KeyError):
        raise NotVerified("This is not a receipt of a Portico gateway, or it is incomplete.") from None
    if key is None:
        raise NotVerified(
            "The key of this receipt is unknown; fetch it with 'portico receipt key', or give the "
            "gateway's key with --key."
        )
    try:
        Ed25519PublicKey.from_public_bytes(_decoded(key["x"])).verify(signed, f"{head}.{body}".encode())
    except (InvalidSignature, ValueError):
        raise NotVerified("The signature is not valid. The receipt was changed, or another gateway made it.") from None
    return claims


def _difference(file: str, size: int, sha256: str, claims: list[dict[str, Any]]) -> str:
    if len(claims) > 1:
        return f"None of the {len(claims)} receipts matches the content of {file} ({size} bytes, SHA-256 {sha256})."
    (claim,) = claims
    if claim.get("size") != size:
        return f"{file} has {size} bytes, but {claim.get('size')} were stored as {claim.get('path')}."
    if not claim.get("sha256"):
        return (
            "The receipt can't be checked against the file: it has no SHA-256, because the gateway didn't compute one."
        )
    return f"The content of {file} differs from the file stored as {claim.get('path')}: their SHA-256 digests differ."


def _by_id(keys: Any) -> Keys:
    """The Ed25519 keys of a JWK set, or of a single JWK; what is anything else is left out."""
    found: Keys = {}
    listed = keys.get("keys", [keys]) if isinstance(keys, dict) else []
    for key in listed if isinstance(listed, list) else []:
        try:
            if (key["kty"], key["crv"]) == ("OKP", "Ed25519") and _decoded(key["x"]):
                found[str(key["kid"])] = key
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _read_keys(file: str) -> Keys:
    try:
        keys = _by_id(json.loads(_read(file)))
    except ValueError:
        keys = {}
    if not keys:
        raise UsageMistake(f"{file} has no key for receipts; fetch it with 'portico receipt key -o FILE'.")
    return keys


def _kept_file() -> Path:
    try:
        return profiles.folder().parent / "receipt-keys.json"
    except RuntimeError:
        raise ProfileUnusable("Keys can't be saved, because there is no home folder; use --output and --key.") from None


def _kept() -> Keys:
    try:
        return _by_id(json.loads(_kept_file().read_text(encoding="utf-8")))
    except (OSError, ValueError, ProfileUnusable):
        return {}


def _keep(keys: Keys) -> None:
    """Add keys to those of other gateways, and to former ones: their receipts stay valid."""
    file = _kept_file()
    known = _kept() | keys
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(file, json.dumps({"keys": list(known.values())}, indent=2) + "\n")
    except OSError as error:
        raise ProfileUnusable(f"The file {file} can't be written: {error.strerror}.") from None


def _decoded(text: str) -> bytes:
    """Only as RFC 7515 writes it: other spellings of the same bytes are not what the gateway sent."""
    try:
        decoded = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        raise ValueError("not Base64") from None
    if urlsafe_b64encode(decoded).decode().rstrip("=") != text:
        raise ValueError("not canonical Base64")
    return decoded
