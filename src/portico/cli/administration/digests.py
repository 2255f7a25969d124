"""`portico digests …`: recorded digests of files that were copied back from a backup."""

from types import SimpleNamespace

from portico.cli.administration.accounts import Accounts, audited, opened_provider, with_accounts
from portico.cli.console.exits import DONE, FAILED
from portico.cli.console.parser import Command, Group, argument
from portico.model.visible_text import visible


def adopt(options: SimpleNamespace) -> int:
    async def action(accounts: Accounts) -> tuple[int, int, int]:
        from portico.drive.cursors import CursorSeal
        from portico.drive.drive import Drive
        from portico.model.rights import DEFAULT_RIGHTS
        from portico.operations.files.digests import Adoption, adopt_digests
        from portico.store.digests import FileDigests

        connection = await accounts.connections.get(options.connection)
        counts = dict.fromkeys(Adoption, 0)
        async with opened_provider(accounts, connection) as (provider, root):
            drive = Drive(provider, root, DEFAULT_RIGHTS, CursorSeal(b""))
            async with audited(accounts.journal, "digests-adopt", connection.name):
                async for path, outcome in adopt_digests(drive, FileDigests(accounts.database), connection.name):
                    counts[outcome] += 1
                    if outcome is not Adoption.ADOPTED:
                        print(f"{visible(str(path))}: {outcome}")
        return counts[Adoption.ADOPTED], counts[Adoption.DIFFERENT], counts[Adoption.CHANGED]

    adopted, different, changed = with_accounts(options.home, action)
    rest = f" {changed} files changed in the meantime: run the command again." if changed else ""
    print(f"{adopted} digests adopted, {different} files differ.{rest}")
    return FAILED if different or changed else DONE


COMMANDS = {
    "digests": Group(
        "Verify files that were copied back into a connection's storage.",
        {
            "adopt": Command(
                adopt,
                "Read each file whose recorded digest belongs to an earlier version. If the "
                "content is the same, keep the digest for the current version.",
                (argument("connection", metavar="CONNECTION", help="The connection's name."),),
            )
        },
        "Example:\n  portico digests adopt local",
    )
}
