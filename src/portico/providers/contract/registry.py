"""The kinds of storage, the options of each, and how a provider is opened.

A provider is imported on first use, so that only the SDKs of the services in use need to be installed.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from secrets import token_hex
from typing import Any

import msgspec

from portico.model.errors import InvalidPath, InvalidRequest, NotFound, PorticoError, ProviderFailed, ProviderRefused
from portico.model.paths import RESERVED_PREFIX, Path
from portico.providers.contract.provider import TIMEOUT_SECONDS, Provider
from portico.providers.contract.uploads import UploadLog, WriteOptions
from portico.providers.multipart.memory import MemoryBudget

_CONTENT = b"Portico was here to see whether it can write.\n"


@dataclass(frozen=True, slots=True)
class ProbeStep:
    name: str
    error: PorticoError | None = None


async def probe(provider: Provider, folder: Path) -> AsyncIterator[ProbeStep]:
    """List `folder`, then write, read and delete a file in it. Ends with the first step that fails."""
    file = Path((*folder.segments, f"{RESERVED_PREFIX}probe-{token_hex(8)}"))
    for name, step in (("list", _list), ("write", _write), ("read", _read), ("delete", _delete)):
        try:
            await step(provider, file)
        except PorticoError as error:
            yield ProbeStep(name, error)
            if step is _read:
                with suppress(PorticoError):
                    await _delete(provider, file)
            return
        yield ProbeStep(name)


async def _list(provider: Provider, file: Path) -> None:
    with suppress(NotFound):  # the folder may not exist yet: writing makes it
        await provider.list_page(file.parent, 1, None)


async def _write(provider: Provider, file: Path) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield _CONTENT

    await provider.write(file, chunks(), "text/plain", WriteOptions(replace=False))


async def _read(provider: Provider, file: Path) -> None:
    download = await provider.read(file)
    async with aclosing(download.chunks) as chunks:
        content = b"".join([chunk async for chunk in chunks])
    if content != _CONTENT:
        raise ProviderFailed("The probe file was read with other content than was written.")


async def _delete(provider: Provider, file: Path) -> None:
    await provider.delete(file)


SECRET_OPTIONS = frozenset({"secret-access-key", "connection-string", "account-key", "sas-token"})
PATH_OPTIONS = frozenset({"folder", "service-account-file"})
"""Options that name a file or folder on the gateway's machine."""
PLACE_OPTIONS = frozenset(
    {"folder", "bucket", "container", "share", "prefix", "endpoint-url", "account-url", "connection-string"}
)
"""Options that say where the files are. The others say how to get there."""
PREFIX_OPTION = "prefix"
"""An option of every cloud kind. `ConnectionPool` applies it; a provider never sees it."""


class Kind(msgspec.Struct, frozen=True):
    implementation: str
    """`module:Class`. The class takes the options as keyword arguments, with underscores for dashes."""
    required: frozenset[str]
    optional: frozenset[str] = frozenset()
    extra: str | None = None
    """The extra that installs the service's SDK."""
    sdk: str | None = None
    """A module that shows whether the SDK is installed. Providers that have one also take `timeout` and `memory`."""
    logs_uploads: bool = False
    """Whether it leaves something behind when its process dies during an upload. Then it also takes `upload_log`, and
    `tries_conditions`."""

    @property
    def options(self) -> frozenset[str]:
        return self.required | self.optional


_AZURE = frozenset({"prefix", "account-url", "connection-string", "account-key", "sas-token"})

KINDS: Mapping[str, Kind] = {
    "local": Kind("portico.providers.local.provider:LocalProvider", required=frozenset({"folder"})),
    "s3": Kind(
        "portico.providers.s3.provider:S3Provider",
        required=frozenset({"bucket"}),
        optional=frozenset(
            {"prefix", "region", "endpoint-url", "access-key-id", "secret-access-key", "role-arn", "profile"}
        ),
        extra="s3",
        sdk="aiobotocore",
        logs_uploads=True,
    ),
    "azure-blob": Kind(
        "portico.providers.azure_blob.provider:AzureBlobProvider",
        required=frozenset({"container"}),
        optional=_AZURE,
        extra="azure",
        sdk="azure.storage.blob",
    ),
    "azure-files": Kind(
        "portico.providers.azure_files.provider:AzureFilesProvider",
        required=frozenset({"share"}),
        optional=_AZURE,
        extra="azure",
        sdk="azure.storage.fileshare",
    ),
    "gcs": Kind(
        "portico.providers.gcs.provider:GcsProvider",
        required=frozenset({"bucket"}),
        optional=frozenset({"prefix", "service-account-file", "endpoint-url", "anonymous"}),
        extra="gcs",
        sdk="google.auth",
    ),
}


def check_options(kind: str, options: Mapping[str, str]) -> None:
    """`InvalidRequest`, naming the first option that is unknown or missing for this kind."""
    known = _kind(kind)
    for name in options:
        if name not in known.options:
            near = get_close_matches(name, known.options, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(sorted(known.options))}."
            raise InvalidRequest(f"The kind {kind!r} has no option {name!r}; {hint}")
    for name in sorted(known.required):
        if not options.get(name):
            raise InvalidRequest(f"The kind {kind!r} needs the option {name!r}; add --option {name}=VALUE.")
    try:
        Path.parse(options.get(PREFIX_OPTION, ""))
    except InvalidPath as error:
        raise InvalidRequest(f"The option {PREFIX_OPTION!r} is not a valid path: {error.detail}") from None


def missing_extra(kind: str) -> str | None:
    """The command that installs what this kind lacks on this machine; None if nothing is missing."""
    known = _kind(kind)
    try:
        there = known.sdk is None or find_spec(known.sdk) is not None
    except ModuleNotFoundError:  # its package is missing, too
        there = False
    return None if there else _install(known)


def open_provider(
    kind: str,
    options: Mapping[str, str],
    timeout: float = TIMEOUT_SECONDS,
    memory: MemoryBudget | None = None,
    upload_log: UploadLog | None = None,
) -> Provider:
    """The provider for options that `check_options` accepts; secrets are options like any other.

    `timeout`: see `TIMEOUT_SECONDS`. `memory`: the budget that uploads to all services share; without one, the
    provider has its own. `upload_log`: without one, what is left behind if this process dies is not recorded.
    """
    check_options(kind, options)
    known = _kind(kind)
    module, _, name = known.implementation.partition(":")
    try:
        implementation: type[Provider] = getattr(import_module(module), name)
    except ImportError as error:
        raise ProviderRefused(
            "The gateway lacks the software for this folder's storage. Tell your administrator.",
            cause=f"{kind!r} needs an extra ({error}): {_install(known)}",
        ) from error
    arguments: dict[str, Any] = {
        key.replace("-", "_"): value for key, value in options.items() if key != PREFIX_OPTION and value
    }
    if known.sdk:  # local folders have no service to wait for
        arguments |= {"timeout": timeout, "memory": memory}
    if known.logs_uploads:
        # A connection that is opened for a moment leaves nothing behind, and need not be fast.
        arguments |= {"upload_log": upload_log, "tries_conditions": upload_log is not None}
    return implementation(**arguments)


def _install(kind: Kind) -> str:
    return f"pip install 'portico-gateway[{kind.extra}]'"


def _kind(name: str) -> Kind:
    if name in KINDS:
        return KINDS[name]
    near = get_close_matches(name, KINDS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the kinds are {', '.join(sorted(KINDS))}."
    raise InvalidRequest(f"{name!r} is not a kind of storage; {hint}")
