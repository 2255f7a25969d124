"""No secret in any log: every one that a gateway holds is looked for in all that it writes."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest

from ..gateways import FILES, WAIT, Gateway, free_port
from .conftest import Start


class _Gossip(BaseHTTPRequestHandler):
    """A storage service that refuses everything, and repeats in its refusal all that it was sent."""

    def _refuse(self) -> None:
        reported = f"{self.command} http://{self.headers['Host']}{self.path}\n{self.headers}"
        body = f"<?xml version='1.0'?><Error><Code>Odd</Code><Message><![CDATA[{reported}]]></Message></Error>"
        self.send_response(403, "Refused")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/xml")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body.encode())

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _refuse  # noqa: N815

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def gossip() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Gossip)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


SIGNATURE = "CANARYsasSignature0123456789"
SECRETS = {
    "s3": "secret-access-key=CANARYs3Secret/0123456789+abcdefghijklmn",
    "azure-blob": f"sas-token=sv=2024-01-01&se=2099-01-01&sr=c&sp=rwdl&sig={SIGNATURE}",
}


def sign_in(gateway: Gateway, name: str, password: str) -> httpx2.Response:
    with gateway.client() as client:
        properties = dict(
            line.split("=", 1)
            for line in (gateway.home / "application.properties").read_text().splitlines()
            if line.startswith("security.client")
        )
        credentials = (properties["security.client-id"], properties["security.client-secret"])
        form = {"grant_type": "password", "username": name, "password": password}
        return client.post("/backend/login", data=form, auth=credentials)


def test_no_secret_is_written_down(start: Start, gossip: str) -> None:
    port = free_port()
    gateway = start(settings={"PORTICO_METRICS_ADDRESS": f"127.0.0.1:{port}", "PORTICO_LOG_LEVEL": "debug"})
    canaries = {"CANARYs3Secret", SIGNATURE, "CANARY-wrong", "CANARY-password"}
    for kind, options in (
        ("s3", ("bucket=b", "region=us-east-1", f"endpoint-url={gossip}", "access-key-id=AKIA")),
        ("azure-blob", ("container=drive", f"account-url={gossip}/account")),
    ):
        given = [word for option in options for word in ("--option", option)]
        gateway.command("connection", "add", kind, "--kind", kind, *given, "--secret-stdin", stdin=SECRETS[kind])
        arguments = ("user", "add", f"{kind}-user", "--connection", kind, "--password-stdin")
        gateway.command(*arguments, stdin="CANARY-password")

    assert sign_in(gateway, "web", "CANARY-wrong-password").status_code == 400
    assert sign_in(gateway, "CANARY-wrong password in the name", "x").status_code == 400
    tokens = gateway.login()
    canaries |= {tokens["access_token"], tokens["refresh_token"], gateway.password}
    with gateway.signed_in() as client:
        canaries.add(client.headers["Authorization"].removeprefix("Bearer "))
        for name in ("a", "b", "c"):
            assert client.post(f"{FILES}/", files=[("data", (name, b"x"))]).status_code == 204
        cursor = client.get(f"{FILES}/", params={"size": 1}).json()["nextCursor"]
        assert client.get(f"{FILES}/", params={"size": 1, "cursor": cursor}).status_code == 200
        assert client.get(f"{FILES}/", params={"cursor": cursor + "CANARY-cursor"}).status_code == 400
        ticket = client.post(f"{FILES}/a", params={"action": "TICKET"}).json()["ticket"]
        canaries |= {cursor, ticket, "CANARY-cursor", "CANARY-ticket"}
        with gateway.client() as browser:
            assert browser.get(f"{FILES}/a", params={"ticket": ticket}).content == b"x"
            assert browser.get(f"{FILES}/b", params={"ticket": "CANARY-ticket"}).status_code == 401
        assert client.delete(f"{FILES}/a").status_code == 204
    with gateway.client() as client:
        assert client.get(f"{FILES}/", headers={"Authorization": "Bearer CANARY-bearer"}).status_code == 401
        canaries.add("CANARY-bearer")
    for kind in SECRETS:
        token = sign_in(gateway, f"{kind}-user", "CANARY-password").json()["access_token"]
        canaries.add(token)
        with gateway.client(headers={"Authorization": f"Bearer {token}"}) as client:
            for answer in (
                client.get(f"{FILES}/"),
                client.get(f"{FILES}/a?action=DOWNLOAD"),
                client.post(f"{FILES}/", files=[("data", ("a", b"x"))]),
                client.delete(f"{FILES}/a"),
            ):
                assert answer.status_code in (502, 503), answer.text
                assert answer.json()["requestId"] in gateway.output
                assert "CANARY" not in answer.text
    metrics = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=WAIT).text
    assert 'connection="azure-blob"' in metrics, gateway.output
    assert gateway.stop() == 0
    audit = (gateway.home / "audit.log").read_text()
    assert '"outcome":"provider-' in audit
    written = {"the log": gateway.output, "the audit log": audit, "the metrics": metrics}
    for file in (gateway.home / "metrics").iterdir():
        written[file.name] = file.read_text()
    assert '"event":"cause"' in written["the log"]
    for place, text in written.items():
        assert [canary for canary in canaries if canary in text] == [], place
        assert "CANARY" not in text, place
