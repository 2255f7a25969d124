"""Our server as an independent client sees it: rclone's own back end for Azure Files."""

import os
import subprocess
import sys
from pathlib import Path as Folder

import pytest

from portico.providers.azure_files.provider import AzureFilesProvider

from ...servers.azure_files import AzureFilesServer, Share
from .actions import get, put

RCLONE = Folder(sys.executable).parent / "rclone"
FILES = {"a b.txt": b"hello", "empty": b"", "sub/it's #1 100%.bin": os.urandom(9 * 2**20), "sub/deep/é.txt": b"deep"}


class Rclone:
    def __init__(self, server: AzureFilesServer, share: str) -> None:
        options = {
            "TYPE": "azurefiles",
            "ACCOUNT": server.account,
            "KEY": server.key,
            # By an address instead of a name, its library takes the share for the account.
            "ENDPOINT": server.url.replace("127.0.0.1", "localhost"),
            "SHARE_NAME": share,
        }
        self._environment = {f"RCLONE_CONFIG_T_{name}": value for name, value in options.items()}
        self._environment |= {"RCLONE_CONFIG": os.devnull, "HOME": os.devnull, "NO_PROXY": "*"}

    def __call__(self, *arguments: str) -> str:
        command = [str(RCLONE), "--retries", "1", "--low-level-retries", "1", *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def rclone(server: AzureFilesServer, share_name: str) -> Rclone:
    return Rclone(server, share_name)


@pytest.fixture
def source(tmp_path: Folder) -> Folder:
    for path, content in FILES.items():
        (tmp_path / "source" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / path).write_bytes(content)
    return tmp_path / "source"


async def test_a_folder_goes_in_and_out(
    rclone: Rclone, source: Folder, share: Share, provider: AzureFilesProvider
) -> None:
    rclone("copy", str(source), "T:in/folder")
    assert sorted(rclone("lsf", "-R", "--files-only", "T:in/folder").splitlines()) == sorted(FILES)
    rclone("check", "--download", str(source), "T:in/folder")
    for path, content in FILES.items():
        assert await get(provider, f"in/folder/{path}") == content
    rclone("moveto", "T:in/folder/a b.txt", "T:in/moved.txt")
    rclone("copyto", "T:in/moved.txt", "T:in/copied.txt")
    assert rclone("lsf", "T:in").splitlines() == ["copied.txt", "folder/", "moved.txt"]
    rclone("purge", "T:in")
    assert list(share.everything()) == []


async def test_it_reads_what_we_write(rclone: Rclone, provider: AzureFilesProvider, source: Folder) -> None:
    for path, content in FILES.items():
        await put(provider, f"ours/{path}", content)
    rclone("check", "--download", str(source), "T:ours")
    rclone("delete", "T:ours/sub")
    assert sorted(rclone("lsf", "-R", "--files-only", "T:ours").splitlines()) == ["a b.txt", "empty"]
