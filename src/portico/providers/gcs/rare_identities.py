"""Identities that gcloud-aio does not know: google-auth gets their tokens, in a thread, as it blocks."""

from datetime import UTC, datetime
from typing import Any

import aiohttp

from portico.providers.answers import nonsense
from portico.providers.transport import LARGEST_ANSWER


def is_rare(data: dict[str, Any]) -> bool:
    """Identities of AWS, of a program or a certificate, and chains of impersonation that do not begin with a user."""
    match data.get("type"):
        case "external_account":
            source = data.get("credential_source") or {}
            return not {"file", "url"} & source.keys() or "environment_id" in source
        case "impersonated_service_account":
            source = data.get("source_credentials") or {}
            return source.get("type") != "authorized_user" or bool(data.get("delegates"))
    return data.get("type") == "external_account_authorized_user"


def obtain(data: dict[str, Any], scope: str) -> tuple[str, float]:
    """A new token and the seconds that it is good for."""
    from google.auth.exceptions import TransportError
    from google.auth.transport.requests import Request

    credentials = _load(data, scope)
    try:
        credentials.refresh(Request(_bounded_session()))
    except TransportError:
        raise aiohttp.ClientConnectionError("google-auth found no connection") from None
    left = credentials.expiry.replace(tzinfo=UTC) - datetime.now(UTC)
    return credentials.token, left.total_seconds()


def _bounded_session() -> Any:
    """What `transport` says of answers, for a library of its own."""
    import requests

    class Session(requests.Session):
        def request(self, *arguments: Any, **options: Any) -> requests.Response:
            options |= {"allow_redirects": False, "stream": True}
            response = super().request(*arguments, **options)
            with response:
                if response.is_redirect:
                    raise nonsense("a redirect of where the credentials come from, which is not followed")
                content = response.raw.read(LARGEST_ANSWER + 1)
            if len(content) > LARGEST_ANSWER:
                raise nonsense("credentials that do not end")
            response._content = content
            return response

    session = Session()
    session.headers["Accept-Encoding"] = "identity"
    return session


def _load(data: dict[str, Any], scope: str) -> Any:
    from google.auth import aws, external_account_authorized_user, identity_pool, pluggable
    from google.auth.impersonated_credentials import Credentials as Impersonated

    if data["type"] == "impersonated_service_account":
        return Impersonated.from_impersonated_service_account_info(data, scopes=[scope])
    if data["type"] == "external_account_authorized_user":
        return external_account_authorized_user.Credentials.from_info(data)
    source = data["credential_source"]
    if "environment_id" in source:
        return aws.Credentials.from_info(data, scopes=[scope])
    if "executable" in source:
        return pluggable.Credentials.from_info(data, scopes=[scope])
    return identity_pool.Credentials.from_info(data, scopes=[scope])
