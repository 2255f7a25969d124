"""Uploads: a file is written to the staging folder and renamed into place."""

import asyncio
import re
from collections.abc import AsyncIterator

from portico.model.entries import UNKNOWN_TYPE, Entry
from portico.model.paths import Path
from portico.providers.azure_common.errors import translated
from portico.providers.azure_files.service import Share
from portico.providers.azure_files.staging import RANGE_BYTES, StagedFile
from portico.providers.azure_files.targets import check_file_target
from portico.providers.contract.uploads import WriteOptions
from portico.providers.multipart.memory import MemoryBudget
from portico.providers.multipart.parts import split

_HEADER_TEXT = re.compile(r"[\x20-\x7e]{1,256}")


async def store(
    share: Share,
    memory: MemoryBudget,
    path: Path,
    chunks: AsyncIterator[bytes],
    content_type: str,
    options: WriteOptions,
) -> Entry:
    """As `Provider.write`."""
    with translated(path.name):
        await check_file_target(
            share,
            path,
            replace=options.replace,
            ancestors_checked=options.ancestors_checked_at is not None,
            if_match=options.if_match,
        )
    staged = StagedFile(share, header_type(content_type), options.at_most)
    try:
        async with split(memory, chunks, lambda _: RANGE_BYTES, options.at_most) as parts:
            await staged.begin(parts.first)
            await parts.send(staged.send)
            return await staged.commit(
                path,
                replace=options.replace,
                if_match=options.if_match,
                modified=options.modified,
                kept=options.kept,
            )
    except BaseException:
        await asyncio.shield(staged.discard())
        raise


def header_type(content_type: str) -> str:
    """The content type, or the unknown one if no header can hold it."""
    return content_type if _HEADER_TEXT.fullmatch(content_type) else UNKNOWN_TYPE
