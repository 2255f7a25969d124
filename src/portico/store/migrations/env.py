"""What Alembic runs; `portico.store.schema.migrate` hands in the connection, inside its transaction."""

from alembic import context

from portico.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
