"""The tables. A change needs a revision in `migrations/versions`; a test compares the two.

Times are integers, milliseconds since the epoch, the same in SQLite and PostgreSQL. No secret of users is stored in plain text:
passwords are argon2id hashes, tokens, tickets, keys and invitations SHA-256, credentials encrypted by the vault.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

connections = Table(
    "connections",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("options", Text, nullable=False),
    Column("secrets", LargeBinary),
    Column("revision", BigInteger, nullable=False),
    Column("volume_id", String(128)),
    Column("origin", String(32)),
)

# `origin`, here and in other tables, is what made the row, such as `apply`; NULL: an administrator, by hand. `reach` is
# compiled from the user's mounts, groups and limits, in JSON: see `reach`. It is rewritten whenever one of these changes.
# `expires_at` and `addresses` are the user's own; groups may limit a user further.
users = Table(
    "users",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(64), nullable=False),
    Column("name_key", String(256), nullable=False, unique=True),
    Column("password_hash", String(256), nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("password_changed_at", BigInteger, nullable=False),
    Column("reach", Text, nullable=False),
    Column("expires_at", BigInteger),
    Column("addresses", Text, nullable=False),
    Column("origin", String(32)),
    sqlite_autoincrement=True,  # the id of a deleted user is never used again
)

# Of two groups with a mount at the same path, the one with the lower `position` wins.
groups = Table(
    "groups",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(64), nullable=False),
    Column("name_key", String(256), nullable=False, unique=True),
    Column("position", Integer, nullable=False),
    Column("expires_at", BigInteger),
    Column("addresses", Text, nullable=False),
    Column("origin", String(32)),
)

members = Table(
    "members",
    metadata,
    Column("group_id", ForeignKey("groups.id", ondelete="CASCADE"), primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), primary_key=True, index=True),
)

# A folder of a connection at a path of the tree of one user, or of all members of a group.
mounts = Table(
    "mounts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE")),
    Column("group_id", ForeignKey("groups.id", ondelete="CASCADE")),
    Column("path", Text, nullable=False),
    Column("connection", ForeignKey("connections.name", ondelete="RESTRICT"), nullable=False, index=True),
    Column("folder", Text, nullable=False),
    Column("rights", String(128), nullable=False),
    Column("origin", String(32)),
    UniqueConstraint("user_id", "path"),
    UniqueConstraint("group_id", "path"),
    CheckConstraint("(user_id IS NULL) <> (group_id IS NULL)", name="ck_mounts_owner"),
)

# A family is one sign-in with all its tokens. Deleting this row ends the session.
families = Table(
    "families",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column("created_at", BigInteger),
    Column("used_at", BigInteger),
    Column("device", String(256)),
    Column("address", String(64)),
)

access_tokens = Table(
    "access_tokens",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("family", ForeignKey("families.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("expires_at", BigInteger, nullable=False, index=True),
)

refresh_tokens = Table(
    "refresh_tokens",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("family", ForeignKey("families.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column("replaced_at", BigInteger),
)

# `place` is the connection and the path in it, which the user's own `path` may leave.
tickets = Table(
    "tickets",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("token", ForeignKey("access_tokens.digest", ondelete="CASCADE"), nullable=False, index=True),
    Column("path", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column("place", Text),
    Column("is_folder", Boolean),
)

# A key of a program, which acts for its owner. `folder` is part of the owner's tree, `addresses` are ranges; an empty text
# is any address.
api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("name", String(64), nullable=False),
    Column("rights", String(128), nullable=False),
    Column("folder", Text, nullable=False),
    Column("addresses", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, index=True),
    Column("used_at", BigInteger),
    Column("used_from", String(64)),
)

# A link with which a user may set a password once; a user has one at most.
invitations = Table(
    "invitations",
    metadata,
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("expires_at", BigInteger, nullable=False, index=True),
)

# One row for each address, each pair of user and address, and each known device that failed. Only a pair has a
# `succeeded_at`, and an address has no `name_digest`.
attempts = Table(
    "attempts",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("since", BigInteger, nullable=False, index=True),
    Column("succeeded_at", BigInteger),
    Column("name_digest", LargeBinary(32), index=True),
    Column("admitted_at", BigInteger),
)

# What all nodes of a cluster must agree on: the first node writes it, the others compare. Migrations write the row
# `oldest-code`; see `schema`.
cluster = Table(
    "cluster", metadata, Column("name", String(64), primary_key=True), Column("value", String(256), nullable=False)
)

# Work that one worker does at a time. `owner` and `owned_until`, here and in other tables: see `ownership`.
leases = Table(
    "leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("owner", String(96), nullable=False),
    Column("owned_until", BigInteger, nullable=False),
)

# The journal: one row for each change, sign-in and administrative change that has ended. A row takes the next number when it
# is written, one transaction after the other, so that a reader who has come to a number has missed none. `line` is the audit
# line; `change` is the id that a change had while it was under way; the other columns are for searches, and for what a change did: to which place (`connection`, `place`), perhaps to or from
# another one (`to_connection`, `target`), what was there before and what was left there (`before`, `after`, in JSON), and
# the id of what the trash keeps of it (`kept`). `chain` is the process that wrote the row, as its `position`-th one, and
# `hash` is of the row and of the hash of the `previous` one: see `journal_chain`. Rows from before that have none.
journal = Table(
    "journal",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("change", String(32), unique=True),
    Column("at", BigInteger, nullable=False),
    Column("node", String(64), nullable=False),
    Column("user", String(256)),
    Column("key", String(32)),
    Column("link", String(16)),
    Column("session", String(64)),
    Column("address", String(64)),
    Column("action", String(32), nullable=False),
    Column("outcome", String(64), nullable=False),
    Column("connection", String(64)),
    Column("place", Text),
    Column("to_connection", String(64)),
    Column("target", Text),
    Column("kept", String(32)),
    Column("before", Text),
    Column("after", Text),
    Column("line", Text, nullable=False),
    Column("chain", String(32)),
    Column("position", BigInteger),
    Column("previous", LargeBinary(32)),
    Column("hash", LargeBinary(32)),
)
# Migration 0014 makes those of columns that may be empty partial, and those of places byte by byte: said here, it would import
# the dialects of both databases everywhere.
for _name in ("at", "user", "address", "action", "outcome", "key", "link", "session"):
    Index(f"ix_journal_{_name}", journal.c[_name], journal.c.number)
for _connection, _name in (("connection", "place"), ("to_connection", "target")):
    Index(f"ix_journal_{_name}", journal.c[_connection], journal.c[_name], journal.c.number)

# What was signed of the journal: by the name of a chain, its last checkpoint, and one row with the lower bound.
journal_proofs = Table(
    "journal_proofs",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("signed", Text, nullable=False),
)

# Changes that have begun and not ended. `owner` is the lease of the process that carries them out: once it has expired,
# any node settles them.
changes_begun = Table(
    "changes_begun",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("owner", String(96), nullable=False, index=True),
    Column("at", BigInteger, nullable=False),
    Column("connection", String(64), nullable=False),
    Column("place", Text, nullable=False),
    Column("to_connection", String(64)),
    Column("target", Text),
    Column("before", Text),
    Column("line", Text, nullable=False),
    Column("mark", String(64)),
)

# Rewinds, while they run and for some time after. `plan` has their steps, until they end, and `steps` how many of each kind there
# are, of which `done` were carried out. `left_alone` is how much was left alone; `report` lists it, or the first of it.
rewinds = Table(
    "rewinds",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("request", Text, nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("plan", Text, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("report", Text, nullable=False),
    Column("cancel_wanted", Boolean, nullable=False),
    Column("started_at", BigInteger, nullable=False, index=True),
    Column("ended_at", BigInteger),
    Column("steps", Text, nullable=False, server_default="{}"),
    Column("left_alone", BigInteger, nullable=False, server_default="0"),
)

# Uploads that have not ended: those that a client may resume, and those that one request sends in parts to a service.
# Finished ones are kept until they expire, so that a client that lost the answer learns what was stored. One
# request at a time owns the row and writes. A newer one sets `wanted`, and the owner makes way. `link` and `address` are of a
# guest: their unfinished uploads are limited.
uploads = Table(
    "uploads",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="SET NULL"), index=True),
    Column("connection", ForeignKey("connections.name", ondelete="CASCADE"), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("path", Text, nullable=False),
    Column("size", BigInteger),
    Column("offset", BigInteger, nullable=False, default=0),
    Column("details", Text, nullable=False),
    Column("state", LargeBinary),
    Column("owner", String(128)),
    Column("owned_until", BigInteger, nullable=False, default=0),
    Column("wanted", Boolean, nullable=False, default=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column("link", String(16), index=True),
    Column("address", String(64)),
)

# What became of a request that carries an idempotency key. `digest` is of the user and the key, `request` of the request.
# Once the request is answered, there is no owner; until then, `response` holds notes.
# `scope` is what the user had when it began: the answer is for nobody who has less. Of each `actor`, a limited number is kept.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("request", LargeBinary(32), nullable=False),
    Column("owner", String(128), nullable=False),
    Column("owned_until", BigInteger, nullable=False),
    Column("response", LargeBinary),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column("scope", Text),
    Column("actor", String(96), index=True),
)

# The SHA-256 of a file's content, valid as long as the file is the one that was hashed. `location` is a digest, too: of
# the connection and the path.
digests = Table(
    "digests",
    metadata,
    Column("location", LargeBinary(32), primary_key=True),
    Column("connection", ForeignKey("connections.name", ondelete="CASCADE"), nullable=False, index=True),
    Column("sha256", LargeBinary(32), nullable=False),
    Column("etag", String(1024), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("path", Text),
)

# Changes that go on after their request was answered. The process that does the work
# owns the row: it saves its progress with each renewal, and looks whether `cancel_wanted` was set. Only while the `state` is
# `running` does the row belong to it. `outcome` is where the result is, or why it failed.
jobs = Table(
    "jobs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("namespace", String(128), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("source", Text, nullable=False),
    Column("target", Text),
    Column("entries", BigInteger, nullable=False, default=0),
    Column("bytes", BigInteger, nullable=False, default=0),
    Column("total", BigInteger),
    Column("outcome", Text),
    Column("request_id", String(64), nullable=False),
    Column("owner", String(128), nullable=False),
    Column("owned_until", BigInteger, nullable=False),
    Column("cancel_wanted", Boolean, nullable=False, default=False),
    Column("started_at", BigInteger, nullable=False, index=True),
    Column("ended_at", BigInteger),
)

# Links by which people without an account reach a file or folder. `path` counts from the root of the connection, so that a
# link follows its folder, no matter who moves it. `trashed` is the id in the trash, or another text, if it was deleted: then
# nothing else that gets its name is shared. A link that was ended stays for a while, with its accesses.
share_links = Table(
    "share_links",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("user_id", ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("connection", ForeignKey("connections.name", ondelete="CASCADE"), nullable=False, index=True),
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("path", Text, nullable=False),
    Column("is_folder", Boolean, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("password_hash", String(256)),
    Column("title", String(256), nullable=False),
    Column("note", Text, nullable=False),
    Column("types", Text, nullable=False),
    Column("ask_name", Boolean, nullable=False),
    Column("folder_per_sender", Boolean, nullable=False),
    Column("max_downloads", BigInteger),
    Column("downloads", BigInteger, nullable=False),
    Column("max_uploads", BigInteger),
    Column("uploads", BigInteger, nullable=False),
    Column("max_bytes", BigInteger),
    Column("bytes", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, index=True),
    Column("ended_at", BigInteger, index=True),
    Column("trashed", String(32), index=True),
)

# A guest is somebody who has opened a link. `folder` is the sender's own, `folder_key` the same without regard to case.
guests = Table(
    "guests",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("link", ForeignKey("share_links.id", ondelete="CASCADE"), nullable=False),
    Column("name", String(128), nullable=False),
    Column("address", String(64), nullable=False),
    Column("folder", String(256)),
    Column("folder_key", String(512)),
    Column("expires_at", BigInteger, nullable=False, index=True),
    UniqueConstraint("link", "folder_key"),
)

guest_tickets = Table(
    "guest_tickets",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("guest", ForeignKey("guests.digest", ondelete="CASCADE"), nullable=False, index=True),
    Column("path", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column("place", Text),
    Column("is_folder", Boolean),
)

# What a guest has downloaded, so that the ranges of one file are counted once. `digest` is of the guest and the path.
guest_downloads = Table(
    "guest_downloads",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("guest", ForeignKey("guests.digest", ondelete="CASCADE"), nullable=False, index=True),
    Column("at", BigInteger, nullable=False),
)

share_accesses = Table(
    "share_accesses",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("link", ForeignKey("share_links.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("at", BigInteger, nullable=False, index=True),
    Column("name", String(128), nullable=False),
    Column("address", String(64), nullable=False),
    Column("action", String(16), nullable=False),
    Column("path", Text, nullable=False),
    Column("bytes", BigInteger),
)

# What was deleted or replaced and can be brought back. Its content is in the storage, by the id. The row is written
# together with the journal's, after the content was moved there. `path` is that in the bucket, container, share or folder; it begins with a slash.
trash = Table(
    "trash",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("connection", ForeignKey("connections.name", ondelete="CASCADE"), nullable=False),
    Column("path", Text, nullable=False),
    Column("is_folder", Boolean, nullable=False),
    Column("size", BigInteger),
    Column("reason", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("user", String(256)),
    Column("deleted_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)
for _name in ("deleted_at", "expires_at"):
    Index(f"ix_trash_{_name}", trash.c.connection, trash.c[_name], trash.c.id)
