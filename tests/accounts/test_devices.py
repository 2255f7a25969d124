from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest

from portico.accounts.sign_in import LIFETIME, MAX_PROOFS, Devices

HASH = "$argon2id$v=19$one"


@pytest.fixture
def devices(clock: Any) -> Devices:
    return Devices(b"k" * 32)


def test_a_device_is_known_for_its_user_its_password_and_its_gateway(devices: Devices) -> None:
    proof = devices.renewed("", 7, HASH)
    assert devices.known(proof, 7, HASH) is not None
    assert devices.known(proof, 8, HASH) is None
    assert devices.known(proof, 7, HASH + "x") is None
    assert Devices(b"l" * 32).known(proof, 7, HASH) is None


def test_every_bit_of_a_proof_counts(devices: Devices) -> None:
    raw = urlsafe_b64decode(devices.renewed("", 7, HASH))
    for bit in range(len(raw) * 8):
        altered = bytearray(raw)
        altered[bit // 8] ^= 1 << bit % 8
        assert devices.known(urlsafe_b64encode(altered).decode(), 7, HASH) is None


def test_a_proof_expires(devices: Devices, clock: Any) -> None:
    proof = devices.renewed("", 7, HASH)
    clock.advance(LIFETIME.total_seconds() - 1)
    assert devices.known(proof, 7, HASH)
    clock.advance(1)
    assert devices.known(proof, 7, HASH) is None


def test_two_devices_are_distinguished(devices: Devices) -> None:
    assert devices.known(devices.renewed("", 7, HASH), 7, HASH) != devices.known(devices.renewed("", 7, HASH), 7, HASH)


def test_a_new_proof_replaces_the_old_one_and_leaves_those_of_others(devices: Devices) -> None:
    proofs = devices.renewed(devices.renewed("", 1, HASH), 2, HASH)
    renewed = devices.renewed(proofs, 1, HASH)
    assert len(renewed.split(".")) == 2
    assert devices.known(renewed, 1, HASH) != devices.known(proofs, 1, HASH)
    assert devices.known(renewed, 2, HASH) == devices.known(proofs, 2, HASH)


def test_what_a_browser_is_given_stays_short(devices: Devices) -> None:
    proofs = ""
    for user in range(10):
        proofs = devices.renewed(proofs, user, HASH)
    assert [user for user in range(10) if devices.known(proofs, user, HASH)] == [6, 7, 8, 9]
    assert len(proofs) < MAX_PROOFS * 65
    assert len(devices.renewed("x;y, " * 10_000, 1, HASH)) == 64
    assert len(devices.renewed('"\r\nSet-Cookie: a=b', 1, HASH)) == 64
