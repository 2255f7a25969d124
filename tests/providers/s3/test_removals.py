"""Amazon removes objects in batches, and says of each what went wrong."""

import pytest

from portico.model.errors import Changed, PorticoError
from portico.providers.objects.service import Version
from portico.providers.s3.provider import S3Provider
from portico.providers.s3.service import Service

from ...servers.proxy import Call, FaultProxy
from .actions import at, content, error, put, said


@pytest.fixture(autouse=True)
def _on_amazon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Service, "is_amazon", True)


def batch(call: Call) -> bool:
    return call.method == "POST" and "delete" in call.query


def single(call: Call) -> bool:
    return call.method == "DELETE"


def errors(code: str, *keys: str) -> str:
    refused = "".join(f"<Error><Key>{key}</Key><Code>{code}</Code></Error>" for key in keys)
    return f"<DeleteResult>{refused}</DeleteResult>"


@pytest.mark.parametrize("code", ["PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"])
async def test_refused_version_that_is_still_there_is_removed(
    provider: S3Provider, proxy: FaultProxy, code: str
) -> None:
    entries = [await put(provider, f"folder/{name}") for name in "abc"]
    keys = [f"folder/{entry.name}" for entry in entries]
    proxy.on(batch, said(200, errors(code, *keys)))
    proxy.on(single, said(412, error("PreconditionFailed")), turns=3)
    versions = [Version(key, entry.etag) for key, entry in zip(keys, entries, strict=True)]
    assert await provider.remove_versions(versions) == []
    assert not await provider.holds_keys("folder/")


async def test_replaced_source_of_a_move_stays_and_is_named(
    provider: S3Provider, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        await put(provider, f"folder/{name}", b"old")
    copied = provider.duplicate

    async def replace_after(source: Version, target: str, *, replace: bool) -> None:
        await copied(source, target, replace=replace)
        if source.key == "folder/b":
            await put(provider, source.key, b"newer")

    monkeypatch.setattr(provider, "duplicate", replace_after)
    proxy.on(batch, said(200, errors("PreconditionFailed", "folder/a", "folder/b", "folder/c")))
    # moto does not compare versions, so it must not be asked for this one.
    proxy.on(lambda call: single(call) and call.path.endswith("/b"), said(412, error("PreconditionFailed")))
    with pytest.raises(Changed, match="'b' was replaced during the move"):
        await provider.move(at("folder"), at("target"))
    assert await content(provider, "folder/b") == b"newer"
    assert [entry.name for entry in (await provider.list_page(at("folder"), 10, None)).entries] == ["b"]


async def test_refusal_without_a_condition_is_an_error(provider: S3Provider, proxy: FaultProxy) -> None:
    for name in "ab":
        await put(provider, f"folder/{name}")
    proxy.on(batch, said(200, errors("PreconditionFailed", "folder/a")))
    with pytest.raises(PorticoError):
        await provider.delete(at("folder"), recursive=True)
