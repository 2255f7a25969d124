"""`portico digests …`: recorded digests of files that were copied back from a backup."""

from types import SimpleNamespace

from portico.cli.administration.accounts import Accounts, with_accounts
from portico.cli.console.exits import DONE, FAILED
from portico.cli.console.parser import Command, Group, argument
from portico.model.visible_text import visible


def adopt(options: SimpleNamespace) -> int:
    async def action(accounts: Accounts) -> tuple[int, int, int]:
        from portico.drive.cursors import CursorSeal
        from portico.drive.drive import Drive
        from portico.model.paths import Path
        from portico.model.rights import DEFAULT_RIGHTS
        from portico.operations.files.digests import Adoption, adopt_digests
        from portico.providers.contract.registry import PREFIX_OPTION, open_provider
        from portico.store.digests import FileDigests

        connection = await accounts.connections.get(options.connection)
        timeout = accounts.settings.provider_timeout.total_seconds()
        provider = open_provider(connection.kind, {**connection.options, **connection.secrets}, timeout)
        provider.expect_volume(connection.volume_id)
        root = Path.parse(connection.options.get(PREFIX_OPTION, ""))
        drive = Drive(provider, root, DEFAULT_RIGHTS, CursorSeal(b""))
        counts = dict.fromkeys(Adoption, 0)
        try:
            async with accounts.audited("digests-adopt", connection.name):
                async for path, outcome in adopt_digests(drive, FileDigests(accounts.database), connection.name):
                    counts[outcome] += 1
                    if outcome is not Adoption.ADOPTED:
                        print(f"{visible(str(path))}: {outcome}")
        finally:
            await provider.close()
        return counts[Adoption.ADOPTED], counts[Adoption.DIFFERENT], counts[Adoption.CHANGED]

    adopted, different, changed = with_accounts(options.home, action)
    rest = f" {changed} files changed in the meantime: run the command again." if changed else ""
    print(f"{adopted} digests adopted, {different} files differ.{rest}")
    return FAILED if different or changed else DONE


_CONNECTION = argument("connection", metavar="CONNECTION", help="The connection's name.")


COMMANDS = {
    "digests": Group(
        "Verify files that were copied back into a connection's storage.",
        {
            "adopt": Command(
                adopt,
                "Read each file whose recorded digest belongs to an earlier version. If the "
                "content is the same, keep the digest for the current version.",
                (_CONNECTION,),
            )
        },
        "Example:\n  portico digests adopt local",
    )
}
