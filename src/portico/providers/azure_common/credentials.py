"""From a connection's options to an account's URL and a credential for the SDK."""

import binascii
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from azure.core.credentials import AccessToken, AzureNamedKeyCredential, AzureSasCredential
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import ClientAuthenticationError

from portico.model.errors import ProviderRefused
from portico.providers.wire.responses import malformed_response

ServiceName = Literal["blob", "file"]
Credential = AzureNamedKeyCredential | AzureSasCredential | AsyncTokenCredential

_STORAGE = "https://storage.azure.com/.default"

# The emulator's published key: it is the same on every machine and protects nothing.
_EMULATED = (
    "AccountName=devstoreaccount1;"
    "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;"
    "BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1"
)


@dataclass(frozen=True, slots=True)
class AzureAccess:
    """An account's URL and its credential: a key, a shared access signature, or the platform's identity."""

    url: str
    """Without a trailing slash, a query or a signature."""
    account: str
    key: str | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)

    def credential(self, transport: Callable[[], Any]) -> Credential:
        """The credential for a client of the SDK. A token credential gets its own `transport`; the caller closes
        it."""
        if self.key:
            return AzureNamedKeyCredential(self.account, self.key)
        if self.sas:
            return AzureSasCredential(self.sas)
        from azure.identity.aio import DefaultAzureCredential  # takes a third of a second to import

        own = transport()
        return StorageCredential(DefaultAzureCredential(transport=own), own)

    def signed(self, url: str, version_id: str | None = None) -> str:
        """The URL in a form that the service can read from, as the source of a copy; of a version, if there is an id."""
        version = None if version_id is None else f"versionid={quote(version_id, safe='')}"
        query = "&".join(filter(None, (version, self.sas)))
        return f"{url}?{query}" if query else url


class StorageCredential:
    """The platform's identity, for storage only: the SDK would request a token for any scope that an error names."""

    def __init__(self, identity: Any, transport: Any) -> None:
        self._identity = identity
        self._transport = transport

    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        if scopes != (_STORAGE,):
            raise malformed_response("a request for a token of another service, which is refused")
        self._transport.flaw = None
        try:
            token: AccessToken = await self._identity.get_token(*scopes, **options)
        except ClientAuthenticationError:
            if self._transport.flaw:
                raise self._transport.flaw from None
            raise
        return token

    async def close(self) -> None:
        await self._identity.close()

    async def __aenter__(self) -> "StorageCredential":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def credential_and_url(
    service: ServiceName,
    *,
    account_url: str | None = None,
    connection_string: str | None = None,
    account_key: str | None = None,
    sas_token: str | None = None,
) -> AzureAccess:
    """The access that the options describe; `ProviderRefused` with the mistake as the cause."""
    if connection_string:
        if account_url or account_key or sas_token:
            raise invalid_option(
                "connection-string can't be combined with other options: remove account-url, account-key and sas-token"
            )
        return _from_connection_string(service, connection_string)
    if not account_url:
        raise invalid_option("account-url or connection-string is missing")
    return _access(account_url, None, account_key, sas_token)


def _from_connection_string(service: ServiceName, text: str) -> AzureAccess:
    fields = _fields(text)
    if fields.get("usedevelopmentstorage", "").lower() == "true":
        fields = _fields(_EMULATED)
    name = fields.get("accountname")
    url = fields.get(f"{service}endpoint")
    if not url:
        if not name:
            raise invalid_option(f"connection-string has neither AccountName nor {service.capitalize()}Endpoint")
        scheme = fields.get("defaultendpointsprotocol", "https")
        url = f"{scheme}://{name}.{service}.{fields.get('endpointsuffix', 'core.windows.net')}"
    key, sas = fields.get("accountkey"), fields.get("sharedaccesssignature")
    if not (key or sas):
        raise invalid_option("connection-string has neither AccountKey nor SharedAccessSignature")
    return _access(url, name, key, None if key else sas)


def _fields(text: str) -> dict[str, str]:
    fields = {}
    for piece in filter(None, (piece.strip() for piece in text.split(";"))):
        name, equals, value = piece.partition("=")
        if not equals:
            raise invalid_option("connection-string is not a list of Name=Value with semicolons between them")
        fields[name.lower()] = value
    return fields


def _access(url: str, name: str | None, key: str | None, sas: str | None) -> AzureAccess:
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise invalid_option("account-url is not a URL") from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise invalid_option("account-url must look like https://ACCOUNT.blob.core.windows.net")
    if parts.query or parts.fragment or parts.username:
        raise invalid_option("account-url must end with the host: put the signature into sas-token")
    if key and sas:
        raise invalid_option("account-key and sas-token can't be combined: remove one of them")
    if not (key or sas) and parts.scheme != "https":
        raise invalid_option(
            "account-url begins with http://, but the platform's identity is only ever sent over https://; "
            "change the URL, or give account-key or sas-token"
        )
    try:
        b64decode(key or "", validate=True)
    except binascii.Error:
        raise invalid_option(
            "account-key is not valid base64: copy the whole key again from the account's access keys"
        ) from None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = f"{host}:{port}" if port else host
    account = name or _account(parts.hostname, parts.path)
    return AzureAccess(
        f"{parts.scheme}://{netloc}{parts.path.rstrip('/')}", account, key, sas.strip().lstrip("?") if sas else None
    )


def _account(host: str, path: str) -> str:
    """The account's name: the first label of the host or, if the host is an address, the first segment of the path."""
    try:
        ip_address(host)
        by_path = True
    except ValueError:
        by_path = "." not in host
    account = path.strip("/").partition("/")[0] if by_path else host.partition(".")[0]
    if not account:
        raise invalid_option("account-url doesn't contain the account's name")
    return account.removesuffix("-secondary")


def invalid_option(cause: str) -> ProviderRefused:
    return ProviderRefused("The storage of this account is not set up correctly. Tell your administrator.", cause=cause)
