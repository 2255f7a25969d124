"""`portico uploads …`: resumable uploads that are not finished."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from portico.cli.administration.accounts import Accounts, audited, read_accounts, with_accounts
from portico.cli.console.output import JSON, show_list
from portico.cli.console.parser import Command, Group, argument
from portico.model import timestamps
from portico.model.errors import NotFound


def list_(options: SimpleNamespace) -> None:
    async def action(accounts: Accounts) -> list[Mapping[str, Any]]:
        from portico.store.uploads import unfinished

        now = accounts.database.now()
        return [
            {
                "id": row.id,
                "user": row.user,
                "connection": row.connection,
                "path": row.path,
                "received": row.offset,
                "size": row.size,
                "sending": row.owned_until > now,
                "startedAt": timestamps.from_epoch(row.created_at),
                "expiresAt": timestamps.from_epoch(row.expires_at),
            }
            for row in await unfinished(accounts.database)
        ]

    show_list(read_accounts(options.home, action), as_json=options.as_json, empty="There are no unfinished uploads.")


def end(options: SimpleNamespace) -> None:
    async def action(accounts: Accounts) -> None:
        from portico.store import uploads

        async with audited(accounts.journal, "upload-end", options.id):
            if not await uploads.end(accounts.database, options.id):
                raise NotFound(
                    f"The upload {options.id} doesn't exist or is finished; list unfinished uploads "
                    "with 'portico uploads list'."
                )

    with_accounts(options.home, action)
    print(f"Ended the upload {options.id}. A running gateway removes its data within ten minutes.")


COMMANDS = {
    "uploads": Group(
        "List and end unfinished resumable uploads.",
        {
            "list": Command(list_, "List unfinished uploads, oldest first.", (JSON,)),
            "end": Command(
                end,
                "End an upload. Its user must send the file again.",
                (argument("id", metavar="ID", help="The upload's id, as shown in the list."),),
            ),
        },
        "Example:\n  portico uploads list",
    )
}
