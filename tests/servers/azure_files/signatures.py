"""Who may ask: SharedKey and account SAS, checked as the service checks them."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from .shares import Refusal

_SIGNED_HEADERS = (
    *("Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type", "Date"),
    *("If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"),
)
_SKEW = timedelta(minutes=15)


def check_shared_key(
    account: str, key: str, method: str, raw_path: str, query: list[tuple[str, str]], headers: Mapping[str, str]
) -> None:
    _check_date(headers)
    values = [headers.get(name, "") for name in _SIGNED_HEADERS]
    values[2] = "" if values[2] == "0" else values[2]
    if "x-ms-date" in headers:
        values[5] = ""
    own = {name.lower(): value.strip() for name, value in headers.items() if name.lower().startswith("x-ms-")}
    # The service sorts by the rules of a language, in which a hyphen hardly counts.
    canonical = [f"{name}:{own[name]}" for name in sorted(own, key=lambda name: (name.replace("-", ""), name))]
    resource = f"/{account}{raw_path}"
    by_name: dict[str, list[str]] = {}
    for name, value in query:
        by_name.setdefault(name.lower(), []).append(value)
    resource += "".join(f"\n{name}:{','.join(sorted(values))}" for name, values in sorted(by_name.items()))
    text = "\n".join([method, *values, *canonical, resource])
    if not hmac.compare_digest(headers["Authorization"], f"SharedKey {account}:{_sign(key, text)}"):
        raise Refusal(403, "AuthenticationFailed")


def check_sas(account: str, key: str, query: Mapping[str, str], needed: str) -> None:
    """An account SAS; `needed` is the letters of which one must be granted."""
    fields = [query.get(name, "") for name in ("sp", "ss", "srt", "st", "se", "sip", "spr", "sv", "ses")]
    text = "\n".join([account, *fields, ""])
    if not hmac.compare_digest(query.get("sig", ""), _sign(key, text)):
        raise Refusal(403, "AuthenticationFailed")
    if datetime.fromisoformat(query["se"]) < datetime.now(UTC):
        raise Refusal(403, "AuthenticationFailed")
    if "f" not in query["ss"]:
        raise Refusal(403, "AuthorizationServiceMismatch")
    if not set(needed) & set(query["sp"]):
        raise Refusal(403, "AuthorizationPermissionMismatch")


def _check_date(headers: Mapping[str, str]) -> None:
    try:
        date = parsedate_to_datetime(headers.get("x-ms-date") or headers["Date"])
    except (KeyError, ValueError):
        raise Refusal(403, "AuthenticationFailed") from None
    if abs(datetime.now(UTC) - date) > _SKEW:
        raise Refusal(403, "AuthenticationFailed")


def _sign(key: str, text: str) -> str:
    return base64.b64encode(hmac.digest(base64.b64decode(key), text.encode(), hashlib.sha256)).decode()
