"""Two uploads of one name at once: one of them is stored, whole."""

import asyncio

from ..figures import Effort, Figure, Lines, none_of


async def one_name(effort: Effort) -> list[Figure]:
    tries = effort.of(25, 1000)
    wrong: list[str] = []
    async with effort.gateway("--workers", "2") as set_:
        gateway = set_.gateway
        for number in range(tries):
            contents = [bytes([65 + each]) * (200_000 + number + each) for each in range(2)]
            statuses = await asyncio.gather(*(gateway.put("file", content) for content in contents))
            if statuses != [204, 204]:
                wrong.append(f"answered {statuses}")
            if (found := (await gateway.get("/file")).body) not in contents:
                wrong.append(f"{len(found)} bytes are stored")
        left = gateway.staged
    return [
        none_of("two uploads of one name at once: no whole winner", tries, wrong),
        none_of("left over after that", tries, left),
    ]


LINES: Lines = {"race": one_name}
