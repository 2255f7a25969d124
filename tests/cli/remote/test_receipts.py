"""`portico receipt`."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from portico.client.auth import profiles

from ...gateways import Gateway
from ..conftest import Portico
from ..test_slim import bare

CONTENT = b"what was meant to be stored"


@pytest.fixture
def receipt(remote: Portico, gateway: Gateway, here: Path) -> dict[str, Any]:
    """The response to an upload, in a file, and its first entry."""
    (here / "file").write_bytes(CONTENT)
    token = json.loads((profiles_folder() / "default.json").read_text())["tokens"]["access_token"]
    answer = httpx2.put(
        f"{gateway.url}/backend/1.0.0/filesystem/a/file",
        content=CONTENT,
        headers={"Authorization": f"Bearer {token}", "Prefer": "return=representation"},
    )
    (here / "response.json").write_bytes(answer.content)
    entry: dict[str, Any] = answer.json()["content"][0]
    (here / "receipt").write_text(entry["receipt"] + "\n")
    return entry


def profiles_folder() -> Path:
    return profiles.folder()


@pytest.mark.parametrize("source", ["receipt", "response.json", "lines.json", "-"])
def test_a_file_and_its_receipt(
    remote: Portico, receipt: dict[str, Any], here: Path, gateway: Gateway, source: str
) -> None:
    assert gateway.url in remote("receipt", "key").out
    (here / "lines.json").write_text(f'{{"path": "/other"}}\n{json.dumps(receipt)}\n')
    gateway_is_not_asked = remote("receipt", "verify", "file", source, stdin=receipt["receipt"])
    assert gateway_is_not_asked.code == 0, gateway_is_not_asked.err
    assert "/a/file" in gateway_is_not_asked.out
    assert receipt["receiptId"] in gateway_is_not_asked.out
    claims = remote("receipt", "verify", "--json", "file", source, stdin=receipt["receipt"]).data
    assert (claims["id"], claims["user"], claims["size"]) == (receipt["receiptId"], "web", len(CONTENT))


def test_a_key_from_a_file(remote: Portico, receipt: dict[str, Any], here: Path) -> None:
    unknown = remote("receipt", "verify", "file", "receipt")
    assert unknown.code == 1
    assert "portico receipt key" in unknown.err
    assert remote("receipt", "key", "-o", "key.json").code == 0
    (profiles_folder().parent / "receipt-keys.json").unlink()
    assert remote("receipt", "verify", "--key", "key.json", "file", "receipt").code == 0
    (here / "single.json").write_text(json.dumps(json.loads((here / "key.json").read_text())["keys"][0]))
    assert remote("receipt", "verify", "--key", "single.json", "file", "receipt").code == 0
    assert json.loads(remote("receipt", "key", "-o", "-").out)["keys"]
    assert remote("receipt", "verify", "--key", "file", "file", "receipt").code == 2


def test_what_is_not_right(remote: Portico, receipt: dict[str, Any], here: Path) -> None:
    remote("receipt", "key")
    head, body, signature = receipt["receipt"].split(".")

    def refused(content: bytes, text: str, code: int = 1) -> str:
        (here / "content").write_bytes(content)
        (here / "text").write_text(text)
        outcome = remote("receipt", "verify", "content", "text")
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1)
        return outcome.err

    assert "bytes" in refused(CONTENT + b"!", receipt["receipt"])
    assert "SHA-256 digests differ" in refused(CONTENT[:-1] + b"!", receipt["receipt"])
    other = body[:-1] + ("A" if body[-1] != "A" else "B")
    assert "not" in refused(CONTENT, f"{head}.{other}.{signature}")
    assert "signature is not valid" in refused(
        CONTENT, f"{head}.{body}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}"
    )
    # Other spellings of the same bytes: the last character has unused bits, and padding, line ends and signs are ignored.
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet[alphabet.index(signature[-1]) + 1]
    for other in (f"{signature[:-1]}{last}", f"{signature}==", f"{signature[:9]}!{signature[9:]}"):
        assert "not a receipt" in refused(CONTENT, f"{head}.{body}.{other}")
    for text in ("", "{}", "[]", "nonsense", "a.b.c", "ä.ö.ü", f"{head}.{body}", '{"receipt": 1}', "[" * 99999):
        refused(CONTENT, text)
    none = json.dumps([{"receipt": receipt["receipt"]}] * 2)
    assert "None of the 2" in refused(b"", none)


def test_what_is_missing(remote: Portico, receipt: dict[str, Any], here: Path) -> None:
    remote("receipt", "key")
    assert remote("receipt", "verify", "none", "receipt").code == 4
    assert remote("receipt", "verify", "file", "none").code == 4
    assert remote("receipt", "verify", "file").code == 2
    assert remote("receipt").code == 2
    (here / "binary").write_bytes(b"\xff\xfe")
    assert remote("receipt", "verify", "file", "binary").code == 1


def test_keys_of_several_gateways_are_kept(remote: Portico, receipt: dict[str, Any]) -> None:
    file = profiles_folder().parent / "receipt-keys.json"
    file.write_text('{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AAAA", "kid": "other"}, "nonsense", {}]}')
    for _ in range(2):
        assert remote("receipt", "key").code == 0
    assert json.loads(file.read_text())["keys"][0]["kid"] == "other"
    assert len(json.loads(file.read_text())["keys"]) == 2
    file.write_text("damaged")
    assert remote("receipt", "key").code == 0
    assert remote("receipt", "verify", "file", "receipt").code == 0


def test_without_the_library(tmp_path: Path) -> None:
    done = bare("from portico.cli.main import run; print(run(['receipt', 'verify', 'a', 'b']))")
    assert done.stdout == "1\n"
    assert "pip install 'portico-gateway[receipts]'" in done.stderr
