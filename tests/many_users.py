"""Many users at once, for what is measured under load."""

from datetime import timedelta

from sqlalchemy import insert, select

from portico.accounts.passwords import Passwords
from portico.accounts.sessions import Sessions
from portico.accounts.users import Users
from portico.store.database import Database
from portico.store.tables import users


async def issued_tokens(url: str, username: str, count: int) -> list[str]:
    """Tokens of as many new users, all of them like `username`, without the cost of their passwords."""
    database, passwords = Database(url), Passwords()
    try:
        accounts = Users(database, passwords)
        first = await accounts.get(username)
        row = await database.first(select(users).where(users.c.id == first.id))
        assert row
        sessions = Sessions(database, token_lifetime=timedelta(hours=1), refresh_lifetime=timedelta(days=1))
        tokens = []
        for number in range(count):
            values = {**row._mapping, "name": f"u{number}", "name_key": f"u{number}"}
            del values["id"]
            await database.execute(insert(users).values(values))
            tokens.append((await sessions.issue(await accounts.get(f"u{number}"))).access_token)
        return tokens
    finally:
        passwords.close()
        await database.close()
