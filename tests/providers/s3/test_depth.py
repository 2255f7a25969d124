"""How many calls a deep path costs."""

from portico.drive.cursors import CursorSeal
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS
from portico.providers.s3.provider import S3Provider

from ...recorded_drive import RecordedDrive
from ...servers.proxy import FaultProxy
from .actions import at, pieces

DEEP = "/".join("d" * 90)
FEW = 12


def drive_of(provider: S3Provider) -> RecordedDrive:
    return RecordedDrive(provider, Path(), DEFAULT_RIGHTS, CursorSeal(bytes(32)))


async def test_a_deep_folder_is_made_by_few_calls(provider: S3Provider, proxy: FaultProxy) -> None:
    await drive_of(provider).make_folder(at(DEEP))
    assert len(proxy.calls) <= FEW
    proxy.calls.clear()
    await drive_of(provider).make_folder(at(DEEP))
    assert len(proxy.calls) <= 4


async def test_many_files_into_one_folder_look_at_the_folders_above_once(
    provider: S3Provider, proxy: FaultProxy
) -> None:
    drive = drive_of(provider)
    await drive.write(at(f"{DEEP}/first"), pieces(b"x"), "text/plain")
    assert len(proxy.calls) <= FEW
    proxy.calls.clear()
    for number in range(20):
        await drive.write(at(f"{DEEP}/{number}"), pieces(b"x"), "text/plain")
    assert {call.query.get("prefix") for call in proxy.calls if call.method == "GET"} == {
        f"{DEEP}/{number}/" for number in range(20)
    }
    looked_at = {call.path for call in proxy.calls if call.method == "HEAD"}
    assert {path.rpartition(f"/{DEEP}/")[2] for path in looked_at} == {str(number) for number in range(20)}


async def test_who_waits_to_send_is_answered_after_few_calls(provider: S3Provider, proxy: FaultProxy) -> None:
    await drive_of(provider).check_target(at(DEEP))
    assert len(proxy.calls) <= FEW
