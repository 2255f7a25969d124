"""Names with direction overrides and invisible characters: refused from guests, escaped in logs."""

import json

import pytest

from ..names import DECEPTIVE, HONEST
from .conftest import SHARES_GATEWAY
from .gateways import Gateway, address
from .shares import GuestClient, metadata, share

pytestmark = SHARES_GATEWAY


async def guest_of(gateway: Gateway, kind: str = "both") -> GuestClient:
    (gateway.files / "box").mkdir(parents=True, exist_ok=True)
    return await (await share(gateway, "/box", kind, askName=False)).guest()


async def statuses(guest: GuestClient, name: str, folder: str = "") -> dict[str, int]:
    """What a guest is answered who adds the name, in every way."""
    place = f"{folder}/" if folder else ""
    tus = {"Upload-Length": "1", "Upload-Metadata": metadata(filename=name, folder=f"/{folder}")}
    part = await guest.tus("POST", headers={"Upload-Length": "0", "Upload-Concat": "partial"})
    final = {"Upload-Concat": f"final;{part.headers['Location']}", "Upload-Metadata": tus["Upload-Metadata"]}
    return {
        "form": (await guest.call("POST", place, files=[("data", (name, b"x"))])).status_code,
        "put": (await guest.put(place + name)).status_code,
        "tus": (await guest.tus("POST", headers=tus)).status_code,
        "concatenation": (await guest.tus("POST", headers=final)).status_code,
        "mkdir": (await guest.call("POST", f"{place}{name}-folder", params={"action": "MKDIR"})).status_code,
        "mkdir below": (await guest.call("POST", f"{place}{name}-above/new", params={"action": "MKDIR"})).status_code,
        "put below": (await guest.put(f"{place}{name}-above/file")).status_code,
    }


@pytest.mark.parametrize("name", DECEPTIVE, ids=ascii)
async def test_guest_cannot_add_a_deceptive_name(gateway: Gateway, name: str) -> None:
    guest = await guest_of(gateway)
    assert set((await statuses(guest, name)).values()) == {400}
    assert list((gateway.files / "box").iterdir()) == []
    refused = (await guest.put(name)).json()
    assert refused["code"] == "invalid-path"
    assert DECEPTIVE[name] in refused["detail"]


@pytest.mark.parametrize("name", HONEST, ids=ascii)
async def test_guest_adds_honest_names(gateway: Gateway, name: str) -> None:
    guest = await guest_of(gateway)
    assert all(200 <= status < 300 for status in (await statuses(guest, name)).values())
    assert (gateway.files / "box" / name).exists()


async def test_owner_may_have_such_names_and_guests_use_their_folders(gateway: Gateway) -> None:
    lie = next(iter(DECEPTIVE))
    gateway.put(f"box/{lie}/a.txt", b"content")
    guest = await guest_of(gateway)
    assert (await guest.call("GET", f"{lie}/a.txt")).content == b"content"
    assert all(200 <= status < 300 for status in (await statuses(guest, "b.txt", lie)).values())


async def test_guest_name_is_not_deceptive(gateway: Gateway) -> None:
    (gateway.files / "box").mkdir(parents=True)
    link = await share(gateway, "/box", "request", askName=True, folderPerSender=True)
    for name in DECEPTIVE.keys() - {"line\u2028end"}:  # which becomes a space
        assert (await link.open(name=name)).status_code == 400, ascii(name)
    assert (await link.open(name="نیم\u200cفاصله")).status_code == 201


async def test_audit_log_shows_deceptive_names_escaped(gateway: Gateway) -> None:
    lie = next(iter(DECEPTIVE))
    signed_in = await gateway.sign_in()
    assert (await gateway.client.put(address(lie), content=b"x", headers=signed_in)).status_code == 201
    text = (gateway.settings.home / "audit.log").read_text()
    assert DECEPTIVE[lie] in text
    assert json.loads(text.splitlines()[-1])["path"] == f"/{lie}"
    assert "\u202e" not in text
