"""The trash: a large folder is deleted, replaced in part, moved, and brought back, with the same bytes."""

from pathlib import Path

import httpx2

from ...gateways import FILES, WAIT
from ..figures import Effort, Figure, Lines, none_of
from ..processes import TunedGateway

_TRASH = "/backend/1.0.0/trash"


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


async def _undo(client: httpx2.AsyncClient, response: httpx2.Response) -> None:
    for trash_id in response.headers["X-Trash-Id"].split(", "):
        parameters = {"action": "RESTORE", "onConflict": "replace"}
        (await client.post(f"{_TRASH}/{trash_id}", params=parameters)).raise_for_status()


async def undone(effort: Effort) -> list[Figure]:
    """Also across a kill: what was deleted right before can be brought back right after."""
    files = effort.of(30, 10_000)
    async with effort.gateway() as running:
        gateway: TunedGateway = running.gateway
        root = gateway.files / "web"
        for number in range(files):
            file = root / "tree" / f"{number % 10}" / f"{number}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"content {number}")
            other = root / "other" / f"{number % 10}" / f"{number}.txt"
            other.parent.mkdir(parents=True, exist_ok=True)
            other.write_text(f"other {number}")
        before = _tree(root / "tree")
        wrong: list[str] = []

        async def check(what: str) -> None:
            if _tree(root / "tree") != before:
                wrong.append(what)

        headers = {"Authorization": f"Bearer {gateway.token}"}
        async with httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=WAIT) as client:
            deleted = await client.delete(f"{FILES}/tree", params={"recursive": "true"})
            await _undo(client, deleted)
            await check("delete")
            merge = {"action": "MOVE", "target": "/tree", "onConflict": "replace"}
            await _undo(client, await client.post(f"{FILES}/other", params=merge))
            await check("merge")
            deleted = await client.delete(f"{FILES}/tree", params={"recursive": "true"})
        gateway.kill()
        gateway.begin()
        headers = {"Authorization": f"Bearer {gateway.token}"}
        async with httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=WAIT) as client:
            await _undo(client, deleted)
        await check("delete, then SIGKILL")
    return [none_of(f"changes of a folder with {files:,} files that could not be undone", 3, wrong)]


LINES: Lines = {"trash": undone}
