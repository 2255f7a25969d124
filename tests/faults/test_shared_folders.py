"""Two gateways on one folder, each through a mount of its own that does not forward locks."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..gateways import FILES, Gateway, RunningUpload, names, wait_until
from ..servers.bindfs import Mounts, mounts
from .conftest import Start
from .test_homes import readiness, upload

MIB = 2**20


@pytest.fixture
def mounted() -> Iterator[Mounts]:
    with mounts() as mounted:
        yield mounted


@pytest.fixture
def share(tmp_path: Path) -> Path:
    folder = tmp_path / "share"
    (folder / "web").mkdir(parents=True)
    return folder


def use(gateway: Gateway, folder: Path) -> None:
    """Let the running gateway use the folder, and wait until it does."""
    gateway.command("connection", "set", "local", "--option", f"folder={folder}")
    wait_until(lambda: upload(gateway, "mark") == 204 and (folder / "web/mark").exists(), "it uses the folder")


def test_a_gateway_that_starts_does_not_disturb_an_upload(
    start: Start, share: Path, tmp_path: Path, mounted: Mounts
) -> None:
    first, second = start(), start()
    for gateway, folder in ((first, tmp_path / "a"), (second, tmp_path / "b")):
        mounted.mount(share, folder)
        use(gateway, folder)
    second.stop()

    running = RunningUpload(first, first.login()["access_token"])
    running.begin("file", b"x" * 4 * MIB)
    staging = share / ".portico~staging"
    wait_until(lambda: any(file.stat().st_size >= MIB for file in staging.glob("*")), "it is being written")
    # A sweep removes these in any case.
    removals = [staging / f"{number:032x}" for number in range(50)]
    for folder in removals:
        folder.mkdir()
    second.start()
    wait_until(lambda: not any(folder.exists() for folder in removals), "the second gateway has swept")
    assert running.finish() == 204
    assert (share / "web/file").read_bytes() == b"x" * 4 * MIB
    with second.signed_in() as client:
        assert names(client) == ["file", "mark"]
    assert list(staging.iterdir()) == []


def test_an_unmounted_share_is_not_an_empty_folder(start: Start, share: Path, tmp_path: Path, mounted: Mounts) -> None:
    folder = tmp_path / "mount"
    mounted.mount(share, folder)
    gateway = start()
    use(gateway, folder)
    with gateway.signed_in() as client:
        assert names(client) == ["mark"]
        mounted.unmount(folder)
        for answer in (
            client.get(f"{FILES}/"),
            client.get(f"{FILES}/mark"),
            client.post(f"{FILES}/", files={"data": ("lost", b"content")}),
            client.post(f"{FILES}/lost?action=MKDIR"),
            client.delete(f"{FILES}/mark"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (503, "provider-unavailable")
            assert answer.headers["Retry-After"]
            assert str(folder) not in answer.text
        wait_until(lambda: readiness(gateway).status_code == 503, "it is not ready")
        facts = json.loads(gateway.command("connection", "list", "--json"))
        assert "its disk or share is probably not mounted" in facts["problem"]
        assert facts["options"] == {"folder": str(folder)}
        assert list(folder.iterdir()) == []

        gateway.stop()
        gateway.start()
        assert "its disk or share is probably not mounted" in gateway.output
        assert client.get(f"{FILES}/").status_code == 503
        assert list(folder.iterdir()) == []

        mounted.mount(share, folder)
        assert names(client) == ["mark"]
        wait_until(lambda: readiness(gateway).status_code == 200, "it is ready again")
