"""File requests: what senders see, the folders of each, and their unfinished uploads."""

import json
from base64 import urlsafe_b64decode

import pytest

from portico.api.shares import SHARE_SESSIONS
from portico.model import timestamps
from portico.runtime import clock as clock_module

from .conftest import Clock
from .gateways import Gateway
from .shares import SHARER, metadata, share


def _in(seconds: int) -> str:
    return timestamps.from_epoch(clock_module.now() + seconds * 1000)


async def test_a_request_shows_a_sender_nothing_of_others(gateway: Gateway) -> None:
    gateway.put("box/report.pdf", b"of somebody else")
    shared = await share(gateway, "/box", "request", askName=True)
    assert (await shared.open()).json()["needs"] == ["name"]
    guest = await shared.guest(name="Anna")
    assert guest.visit["rights"] == ["upload"]
    assert guest.visit["name"] == ""  # not even that of the folder

    stored = await guest.put("report.pdf", b"of Anna", headers={"Prefer": "return=representation"})
    assert stored.status_code == 201
    (entry,) = stored.json()["content"]
    assert (entry["name"], entry["absolutePath"]) == ("report.pdf", "/report.pdf")
    assert entry["receipt"]
    # A condition tells nothing, either.
    for condition in ({"If-None-Match": "*"}, {"Expect": "100-continue"}):
        again = await guest.put("report.pdf", b"again", headers=condition)
        assert (again.status_code, again.headers["Content-Location"][-10:]) == (201, "report.pdf")
    assert (await guest.put("report.pdf", headers={"If-Match": "*"})).status_code == 412
    assert (await guest.put("other.pdf", headers={"If-Match": "*"})).status_code == 412
    form = await guest.call("POST", "", files=[("data", ("report.pdf", b"by form"))])
    assert form.headers["Content-Location"].endswith("/report.pdf")
    headers = {"Upload-Length": "6", "Upload-Metadata": metadata(filename="report.pdf", onConflict="fail")}
    begun = await guest.tus("POST", headers=headers)
    where = begun.headers["Location"]
    content = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": "0"}
    done = await guest.tus("PATCH", where, headers=content, content=b"by tus")
    assert done.headers["Content-Location"].endswith("/report.pdf")

    # Another guest, and even the owner, have nothing to do with that upload.
    other = await shared.guest(name="Bert")
    assert (await other.tus("HEAD", where)).status_code == 404
    own = await gateway.client.head(where, headers={**await gateway.sign_in(SHARER), "Tus-Resumable": "1.0.0"})
    assert own.status_code == 404
    # The owner sees who sent what.
    assert len(list((gateway.files / "box").iterdir())) == 6
    assert (gateway.files / "box/report.pdf").read_bytes() == b"of somebody else"
    uploads = [access for access in await shared.accesses() if access["action"] == "upload"]
    assert [(each["name"], each["path"]) for each in uploads][-1] == ("Anna", "/box/report (1).pdf")
    assert (await shared.show())["uploads"] == 5


async def test_each_sender_has_a_folder(gateway: Gateway) -> None:
    (gateway.files / "box").mkdir()
    shared = await share(gateway, "/box", "request", folderPerSender=True)
    for number in range(3):
        guest = await shared.guest(name="Anna / ../ <b>" if number else "Anna")
        assert guest.visit["hasOwnFolder"]
        assert (await guest.put("sub/file.txt")).status_code == 201
    assert sorted(each.name for each in (gateway.files / "box").iterdir()) == [
        "Anna",
        "Anna _ .._ _b_",
        "Anna _ .._ _b_ (1)",
    ]
    shown = await gateway.client.post(
        SHARE_SESSIONS, json={"link": f"https://files.example.com/s/{shared.token}?a=/b#/sub/c", "name": "Eve"}
    )
    assert shown.status_code == 201
    for unfit in ("a\u202eb", "x" * 101, "\u200d\u0007", "\u200d\u200c", "\u200d \u3164", "\u0301"):
        assert (await shared.open(name=unfit)).status_code == 400
    persian = "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627"
    assert (await (await shared.guest(name=persian)).put("file.txt")).status_code == 201
    # A name may have more bytes than a folder.
    long = "\N{GRINNING FACE}" * 100
    for _ in range(2):
        assert (await (await shared.guest(name=long)).put("file.txt")).status_code == 201
    assert {access["name"] for access in (await shared.accesses())[:4]} == {long}
    # The receipt says who sent it.
    (entry,) = (await guest.put("x", headers={"Prefer": "return=representation"})).json()["content"]
    claims = entry["receipt"].split(".")[1]
    assert "link" in json.loads(urlsafe_b64decode(claims + "=="))["user"]


async def test_senders_of_one_name_get_folders_without_many_lookups(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.operations.sharing.guest_sign_in.NUMBERED", 2)
    (gateway.files / "box").mkdir()
    shared = await share(gateway, "/box", "request", folderPerSender=True)
    for _ in range(4):
        assert (await (await shared.guest(name="Anna")).put("a.txt")).status_code == 201
    names = {each.name for each in (gateway.files / "box").iterdir()}
    assert len(names) == 4
    assert {"Anna", "Anna (1)"} < names
    assert "Anna (2)" not in names


DAY = 24 * 3600


async def test_an_unfinished_upload_outlives_the_day_of_a_token(gateway: Gateway, clock: Clock) -> None:
    gateway.put("box/a.txt")
    shared = await share(gateway, kind="request", askName=False)
    guest, idle = await shared.guest(), await shared.guest()
    named = {"Upload-Length": "6", "Upload-Metadata": metadata(filename="late.txt")}
    begun = await guest.tus("POST", headers=named)
    where = begun.headers["Location"]
    piece = {"Content-Type": "application/offset+octet-stream"}
    sent = await guest.tus("PATCH", where, headers={**piece, "Upload-Offset": "0"}, content=b"abc")
    assert sent.status_code == 204
    clock.advance(DAY + 3600)
    for other in (idle, await shared.guest()):
        assert (await other.tus("HEAD", where)).status_code in (401, 404)
    assert (await idle.put("idle.txt", b"x")).status_code == 401
    for _ in range(2):  # a sweep leaves the guest
        assert (await guest.tus("HEAD", where)).headers["Upload-Offset"] == "3"
        await gateway.services.gateway.guest_sign_in._guests.sweep()
    sent = await guest.tus("PATCH", where, headers={**piece, "Upload-Offset": "3"}, content=b"def")
    assert sent.status_code == 204
    assert (gateway.files / "box/late.txt").read_bytes() == b"abcdef"
    await shared.end()
    assert (await guest.tus("HEAD", where)).status_code == 401
