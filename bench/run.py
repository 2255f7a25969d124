"""Side-by-side measurements: each line is measured in the same run as what it is held against, and is a ratio."""

import asyncio

import folders
import pages


async def main() -> None:
    await folders.measure()
    await pages.measure()


if __name__ == "__main__":
    asyncio.run(main())
