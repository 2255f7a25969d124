import pathlib
import stat
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from portico.accounts.vault import BadSecretKey, SecretKey, Vault


def test_the_key_file_is_made_once_and_private(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "home" / "secret.key"
    first = SecretKey.load(file, {})
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert SecretKey.load(file, {}).text() == first.text() == file.read_text().strip()
    assert [entry.name for entry in file.parent.iterdir()] == ["secret.key"]


def test_keys_are_derived_by_hkdf() -> None:
    known = HKDF(SHA256(), 32, salt=None, info=b"portico/cursors").derive(bytes(range(32)))
    assert SecretKey(bytes(range(32))).derive("cursors") == known


def test_many_at_once_agree_on_one_key(tmp_path: pathlib.Path) -> None:
    with ThreadPoolExecutor(16) as threads:
        keys = threads.map(lambda _: SecretKey.load(tmp_path / "secret.key", {}).text(), range(64))
    assert len(set(keys)) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_the_environment_beats_the_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "secret.key"
    key = SecretKey.generate()
    assert SecretKey.load(file, {"PORTICO_SECRET_KEY": key.text()}).text() == key.text()
    assert SecretKey.load(file, {"PORTICO_SECRET_KEY": key.text().rstrip("=") + "\n"}).text() == key.text()
    assert not file.exists()


def test_the_key_may_be_in_a_file_that_the_environment_names(tmp_path: pathlib.Path) -> None:
    file, named = tmp_path / "secret.key", tmp_path / "credential"
    environment = {"PORTICO_SECRET_KEY_FILE": str(named)}
    assert SecretKey.exists(file, environment)
    with pytest.raises(BadSecretKey, match=r"credential can't be used: No such file"):
        SecretKey.load(file, environment)
    key = SecretKey.generate()
    named.write_text(key.text() + "\n")
    assert SecretKey.load(file, environment).text() == key.text()
    assert not file.exists()


def test_a_key_in_a_variable_and_in_a_named_file_is_refused(tmp_path: pathlib.Path) -> None:
    key = SecretKey.generate().text()
    (tmp_path / "credential").write_text(key)
    environment = {"PORTICO_SECRET_KEY": key, "PORTICO_SECRET_KEY_FILE": str(tmp_path / "credential")}
    with pytest.raises(BadSecretKey, match="PORTICO_SECRET_KEY_FILE and PORTICO_SECRET_KEY are both set;"):
        SecretKey.load(tmp_path / "secret.key", environment)
    assert SecretKey.load(tmp_path / "secret.key", {**environment, "PORTICO_SECRET_KEY_FILE": ""}).text() == key


def test_standard_base64_is_the_same_key(tmp_path: pathlib.Path) -> None:
    key = SecretKey(b"\xfb\xff" * 16)
    text = b64encode(b"\xfb\xff" * 16).decode()
    assert {"+", "/"} <= set(text)
    assert SecretKey.load(tmp_path / "secret.key", {"PORTICO_SECRET_KEY": text}).text() == key.text()


@pytest.mark.parametrize("text", ["short", "a" * 43 + "!", "ä" * 43, "A" * 44, "A" * 20 + " " + "A" * 23, "A" * 86])
def test_a_malformed_key_is_refused_and_not_shown(text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "secret.key").write_text(text)
    with pytest.raises(BadSecretKey, match=r"malformed.*openssl rand -base64 32 \| tr '\+/' '-_'") as from_file:
        SecretKey.load(tmp_path / "secret.key", {})
    assert text not in from_file.value.detail
    assert "secret.key" in from_file.value.detail
    with pytest.raises(BadSecretKey, match="PORTICO_SECRET_KEY"):
        SecretKey.load(tmp_path / "secret.key", {"PORTICO_SECRET_KEY": text})


def test_a_key_file_out_of_reach_is_a_clear_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(BadSecretKey, match="Is a directory"):
        SecretKey.load(tmp_path, {})


def test_derived_keys_differ_by_purpose_only() -> None:
    key = SecretKey.generate()
    assert key.derive("vault") == key.derive("vault")
    assert len(key.derive("vault")) == 32
    assert key.derive("vault") != key.derive("cursors")
    assert key.derive("vault") != SecretKey.generate().derive("vault")


def test_what_is_sealed_opens_again() -> None:
    vault = Vault(SecretKey.generate())
    secrets = {"secret-access-key": "canary", "schlüssel": "ö\n"}
    assert vault.open(vault.seal(secrets, "bucket"), "bucket") == secrets
    assert vault.seal(secrets, "bucket") != vault.seal(secrets, "bucket")
    assert b"canary" not in vault.seal(secrets, "bucket")


def test_another_key_another_label_or_altered_bytes_do_not_open() -> None:
    vault = Vault(SecretKey.generate())
    sealed = vault.seal({"key": "canary"}, "bucket")
    with pytest.raises(BadSecretKey, match="another secret key"):
        Vault(SecretKey.generate()).open(sealed, "bucket")
    with pytest.raises(BadSecretKey):
        vault.open(sealed, "other")
    for altered in (b"", sealed[:5], sealed[:-1], b"\x02" + sealed[1:], sealed[:-1] + bytes([sealed[-1] ^ 1])):
        with pytest.raises(BadSecretKey):
            vault.open(altered, "bucket")


def test_nothing_shows_the_key() -> None:
    key = SecretKey.generate()
    assert key.text() not in repr(key)
    assert repr(Vault(key)) == "Vault(…)"
