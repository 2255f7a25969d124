"""`portico export`: connections, groups, users and mounts as a policy file."""

from types import SimpleNamespace

from portico.cli.administration.accounts import Accounts, read_accounts
from portico.cli.console.parser import Command, flag
from portico.cli.console.terminal import standard_output


def export(options: SimpleNamespace) -> None:
    if options.schema:
        standard_output().write(_schema())
        return

    async def action(accounts: Accounts) -> list[str]:
        from portico.accounts.policy.export import exported
        from portico.accounts.policy.policies import current_policy

        return list(exported((await current_policy(accounts.database, accounts.connections)).policy))

    lines = read_accounts(options.home, action)
    standard_output().write("".join(f"{line}\n" for line in lines))


def _schema() -> str:
    from importlib.resources import files

    return (files("portico.accounts.policy") / "schema.json").read_text(encoding="utf-8")


COMMANDS = {
    "export": Command(
        export,
        "Print connections, groups, users and mounts as YAML, for 'portico apply'. It has no secrets: "
        "${stored} stands for each, and keeps what the gateway has.",
        (flag("--schema", help="Print the JSON Schema of the file instead, for editors."),),
        "Example:\n  portico export > company.yaml",
    )
}
