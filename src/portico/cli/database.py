"""`portico migrate`: change the schema of the database."""

from types import SimpleNamespace

from portico.cli.home import SET_UP_MARK, prepare
from portico.cli.home_setup import undone_on_failure
from portico.cli.parser import Command


def migrate(options: SimpleNamespace) -> None:
    from portico.store import schema

    with undone_on_failure(options.home):
        settings = prepare(options.home)
        done = schema.migrate(settings.database_url, set_up_mark=settings.home / SET_UP_MARK)
    newest = schema.newest_revision()
    if done.before is None:
        print(f"Made the tables of schema {done.after} in the empty database.")
    elif done.before != done.after:
        print(f"Migrated the database from schema {done.before} to {done.after}.")
    elif done.after == newest:
        print(f"There is nothing to do: the database has schema {newest} already.")
    else:
        print(
            f"There is nothing to do: the database has schema {done.after} of a newer version of Portico, which this "
            f"version ({newest}) can use."
        )


COMMANDS = {
    "migrate": Command(
        migrate,
        "Migrate the database to the schema of this version of Portico.\n\nNodes of the version before may go on meanwhile. "
        "A start does the same, unless database.migrate is false or --no-migrate is given.",
        (),
        "Example:\n  portico migrate && systemctl restart portico",
    ),
}
