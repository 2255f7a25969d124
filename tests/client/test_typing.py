import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio
import io
from pathlib import Path
from portico import AsyncClient, Client
from portico.client import ClientError, Entry, NotFound, Temporary, Tokens

def show(path: str, done: int, total: int | None) -> None:
    print(f"{path}: {done} of {total}")

def newest(client: Client) -> Entry | None:
    files = [entry for _, _, files in client.walk("/reports") for entry in files if entry.modified]
    return max(files, key=lambda entry: entry.last_modified or "", default=None)

with Client("https://files.example.com", username="alice", password="secret") as client:
    tokens: Tokens = client.login()
    client.upload(Path("a.csv"), "/reports/", progress=show)
    client.upload(io.BytesIO(b"1"), "/b.csv", on_conflict="rename")
    client.upload_all([("a.csv", "/reports/"), (b"content", "/c.csv"), (open("d", "rb"), "/d")])
    with open("e", "wb") as file:
        client.download("/e", file)
    sizes: list[int] = [entry.size or 0 for entry in client.list("/reports")]
    head: bytes = client.read("/reports/a.csv", 0, 100)
    try:
        client.delete("/none")
    except NotFound as error:
        code: str = error.code
    except Temporary as error:
        wait: float | None = error.retry_after
    except ClientError as error:
        print(error.request_id, error.status, error.stored)

async def main() -> None:
    async with AsyncClient("https://files.example.com", tokens=tokens) as client:
        async for entry in client.list("/"):
            print(entry.name)
        async for folder, folders, files in client.walk():
            print(folder, len(folders), len(files))
        await client.download("/a", "a", resume=True)
"""

MISTAKES = """
from portico import Client
from portico.client import NotFuond
client = Client("https://files.example.com", connections="many")
client.upload(5, "/five")
client.move("/a", "/b", on_conflict="overwrite")
name: int = client.stat("/a").name
"""


def check(file: Path, program: str) -> "subprocess.CompletedProcess[str]":
    file.write_text(program)
    arguments = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(file.parent / "cache"), str(file)]
    return subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=Path.cwd())


def test_a_program_that_uses_the_client_is_typed(tmp_path: Path) -> None:
    done = check(tmp_path / "program.py", PROGRAM)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Success: no issues found in 1 source file")


def test_mistakes_are_found(tmp_path: Path) -> None:
    done = check(tmp_path / "mistakes.py", MISTAKES)
    found = [line for line in done.stdout.splitlines() if "mistakes.py" in line and "error" in line]
    assert len(found) == 5, done.stdout
