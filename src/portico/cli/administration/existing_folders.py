"""Folders that exist before the user who gets them: a deleted account may have left its files there."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from portico.cli.administration.accounts import Accounts, opened_provider
from portico.cli.console.parser import flag
from portico.model.errors import NotAFolder, NotFound, NotPossible, PorticoError, for_administrator
from portico.model.paths import Path, Place
from portico.model.reach import MountRule

if TYPE_CHECKING:
    from portico.accounts.connections import Connection
    from portico.providers.contract.provider import Provider

EXISTING_FOLDER = flag(
    "--existing-folder", help="Accept that a {user} folder already has files, such as those of a deleted account."
)
_SHOWN = 3
_PAGES, _PAGE = 10, 100
_FLAG = "If these files are meant for the user, add --existing-folder."

Given = tuple[str, MountRule, str | None]
"""A user's name, a mount that the user gets, and the group that it comes from."""


async def check_new_folders(accounts: Accounts, given: Iterable[Given], *, accept: bool) -> None:
    """`NotPossible` if one of the users gets a folder named after them that has files already."""
    if accept:
        return
    wanted: dict[Place, str] = {}
    reached: dict[str, frozenset[Place]] = {}
    for name, rule, group in given:
        if rule.is_personal and rule.rights:
            if name not in reached:
                reached[name] = await _reached(accounts, name)
            place = rule.mount_for(name, group).place
            if place not in reached[name]:
                wanted[place] = name
    connections = {place.connection: await accounts.connections.get(place.connection) for place in wanted}
    await check_places(accounts, wanted, connections)


async def check_places(
    accounts: Accounts, wanted: Mapping[Place, str], connections: "Mapping[str, Connection]"
) -> None:
    """`NotPossible` if one of these places, which are named after these users, has files already."""
    found = await _with_files(accounts, wanted, connections)
    if found:
        places = ", ".join(f"{place.path} in {place.connection} (for '{wanted[place]}')" for place in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise NotPossible(f"These folders already have files: {places}{more}. {_FLAG}")


async def _reached(accounts: Accounts, name: str) -> frozenset[Place]:
    """What the user has already; nothing if the user is new."""
    with suppress(NotFound):
        user = await accounts.users.get(name)
        return frozenset(mount.place for mount in user.reach.mounts)
    return frozenset()


async def _with_files(
    accounts: Accounts, places: Collection[Place], connections: "Mapping[str, Connection]"
) -> list[Place]:
    found: list[Place] = []
    for name in sorted({place.connection for place in places}):
        try:
            async with opened_provider(accounts, connections[name]) as (provider, top):
                mine = sorted((place for place in places if place.connection == name), key=str)
                found += [place for place in mine if await _has_files(provider, place.path.under(top))]
        except PorticoError as error:
            raise NotPossible(
                f"The storage of the connection {name} doesn't answer, so a folder that already has files can't be "
                f"ruled out: {for_administrator(error).rstrip('.')}. Add --existing-folder to go ahead."
            ) from None
    return found


async def _has_files(provider: "Provider", folder: Path) -> bool:
    token = None
    try:
        for _ in range(_PAGES):
            page = await provider.list_page(folder, min(_PAGE, provider.max_page_size), token)
            if page.entries:
                return True
            if (token := page.token) is None:
                return False
    except NotFound:
        return False
    except NotAFolder:
        return True
    return True  # after so many empty pages, better to refuse than to list on
