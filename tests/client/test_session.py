import threading
import time
from pathlib import Path
from typing import Any

import pytest

from portico import Client as TopClient
from portico.client import Client, InvalidRequest, NotSignedIn, SignInFailed, Tokens
from portico.client.auth.tokens import MemoryTokenStore

from ..gateways import Gateway
from ..servers.proxy import FaultProxy, Reply
from .conftest import MakeClient, both_clients
from .test_uploads import LARGE, Pipe


def logins(proxy: FaultProxy) -> int:
    return sum(call.path == "/backend/login" for call in proxy.calls)


def known_client(gateway: Gateway) -> dict[str, str]:
    lines = (gateway.home / "application.properties").read_text().splitlines()
    found = dict(line.split("=", 1) for line in lines if line.startswith("security.client-"))
    return {"client_id": found["security.client-id"], "client_secret": found["security.client-secret"]}


def test_login_tells_the_rights(client: Client) -> None:
    tokens = client.login()
    assert set(tokens.rights) == {"list", "download", "upload", "overwrite"}
    assert tokens.expires_at is not None
    assert 3000 < tokens.expires_at - time.time() <= 3600
    assert tokens.access_token not in repr(tokens)


@both_clients
def test_the_sign_in_comes_by_itself_and_once(make: MakeClient, proxy: FaultProxy, gateway: Gateway) -> None:
    client = make(f"http://127.0.0.1:{proxy.port}", **known_client(gateway))
    assert list(client.list()) == []
    client.stat("/")
    assert proxy.calls[0].path == "/backend/login"
    assert logins(proxy) == 1


def test_a_wrong_password(make: MakeClient) -> None:
    with pytest.raises(SignInFailed) as refused:
        make(password="wrong").login()
    assert (refused.value.code, refused.value.status) == ("invalid_grant", 400)
    with pytest.raises(SignInFailed) as refused:
        make(client_id="nobody", client_secret="knows").login()
    assert refused.value.code == "invalid_client"
    with pytest.raises(NotSignedIn):
        make(username=None, password=None).stat("/")


@both_clients
def test_logging_in_later(make: MakeClient, password: str) -> None:
    client = make(username=None, password=None)
    client.login("web", password)
    assert client.stat("/").is_folder


def test_tokens_alone_are_enough(make: MakeClient) -> None:
    tokens = make().login()
    client = make(username=None, password=None, tokens=tokens)
    assert client.stat("/").is_folder
    client.logout()
    with pytest.raises(NotSignedIn):
        client.stat("/")
    with pytest.raises(NotSignedIn):
        make(username=None, password=None, tokens=tokens).stat("/")


@both_clients
def test_a_refused_token_is_renewed(make: MakeClient, proxy: FaultProxy) -> None:
    tokens = make().login()
    store = MemoryTokenStore(Tokens("stale", tokens.refresh_token))
    client = make(f"http://127.0.0.1:{proxy.port}", username=None, password=None, tokens=store)
    assert client.stat("/").is_folder
    kept = store.load()
    assert kept is not None
    assert kept.access_token not in ("stale", tokens.access_token)
    assert kept.refresh_token != tokens.refresh_token
    assert logins(proxy) == 1


def test_a_token_is_renewed_before_it_ends(make: MakeClient, proxy: FaultProxy) -> None:
    tokens = make().login()
    ending = Tokens(tokens.access_token, tokens.refresh_token, time.time() + 5)
    client = make(f"http://127.0.0.1:{proxy.port}", tokens=ending)
    client.stat("/")
    assert [call.path for call in proxy.calls][-2:] == ["/backend/login", "/backend/1.0.0/filesystem/"]


def test_the_password_helps_where_the_refresh_token_does_not(make: MakeClient) -> None:
    store = MemoryTokenStore(Tokens("stale", "stale too"))
    assert make(tokens=store).stat("/").is_folder
    with pytest.raises(SignInFailed):
        make(username=None, password=None, tokens=Tokens("stale", "stale too")).stat("/")


def test_an_ended_session_is_forgotten(make: MakeClient) -> None:
    store = MemoryTokenStore(Tokens("stale", "stale too"))
    with pytest.raises(SignInFailed):
        make(username=None, password=None, tokens=store).stat("/")
    assert store.load() is None


def test_programs_share_a_store(make: MakeClient, proxy: FaultProxy) -> None:
    """A program whose token is rejected uses the other's new token rather than the refresh token."""
    store = MemoryTokenStore(Tokens("stale"))
    client = make(f"http://127.0.0.1:{proxy.port}", username=None, password=None, tokens=store)
    store.save(make().login())
    assert client.stat("/").is_folder
    assert logins(proxy) == 0


def test_renewal_happens_once_for_many_threads(gateway: Gateway, password: str, proxy: FaultProxy) -> None:
    with TopClient(gateway.url, username="web", password=password) as first:
        tokens = first.login()
    client = Client(
        f"http://127.0.0.1:{proxy.port}",
        tokens=Tokens("stale", tokens.refresh_token),
        **known_client(gateway),  # type: ignore[arg-type]
    )
    outcomes: list[Any] = []
    threads = [threading.Thread(target=lambda: outcomes.append(client.stat("/"))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.close()
    assert len(outcomes) == 12
    assert logins(proxy) == 1


@both_clients
@pytest.mark.parametrize("size", [10, len(LARGE)], ids=["small", "large"])
def test_an_upload_with_a_stale_token(make: MakeClient, root: Path, size: int) -> None:
    """A stream that can be read only once is not lost: the gateway rejects the request before it is read."""
    client = make(tokens=Tokens("stale"))
    client.upload(Pipe(LARGE[:size]), "/piped")
    assert (root / "piped").read_bytes() == LARGE[:size]


def test_what_no_gateway_says(make: MakeClient, proxy: FaultProxy) -> None:
    client = make(f"http://127.0.0.1:{proxy.port}", attempts=1)
    proxy.on(lambda call: call.path == "/config.js", Reply(200, {}, b"nothing"))
    with pytest.raises(Exception, match="client id"):
        client.login()
    proxy.on(lambda call: call.path == "/backend/login", Reply(200, {}, b"{}"), Reply(200, {}, b"<html>"))
    with pytest.raises(Exception, match="no token"):
        client.login()
    with pytest.raises(Exception, match="not JSON"):
        client.login()
    proxy.on(lambda call: call.path == "/backend/login", Reply(400, {}, b'{"error": "invalid_request"}'))
    with pytest.raises(InvalidRequest):
        client.login()
