"""Signing in with a password: throttle, password and token in one place."""

from sqlalchemy import select

from portico.accounts.names import name_key
from portico.accounts.passwords import Passwords
from portico.accounts.throttle import Throttle, pair_of
from portico.accounts.tokens import TokenPair, Tokens
from portico.accounts.users import USER_COLUMNS, user_of
from portico.errors import NotSignedIn, PorticoError
from portico.store.database import Database
from portico.store.tables import users


class WrongPassword(PorticoError):
    """The same for a wrong password, an unknown user and a disabled one."""

    code = "wrong-password"


class SignIn:
    def __init__(self, database: Database, passwords: Passwords, throttle: Throttle, tokens: Tokens) -> None:
        self._database = database
        self._passwords = passwords
        self._throttle = throttle
        self._tokens = tokens
        self._verifying: set[bytes] = set()

    async def with_password(self, username: str, password: str, address: str) -> TokenPair:
        """Tokens for the user; `WrongPassword`, or `TooManyRequests` with the seconds to wait."""
        query = select(*USER_COLUMNS, users.c.password_hash).where(users.c.name_key == name_key(username))
        async with self._database.connect() as reading:
            familiar = await self._throttle.check(username, address, within=reading)
            row = (await reading.execute(query)).first()
        hashed = None if row is None else row.password_hash
        # A disabled user's password is verified all the same: the time must not tell that the account exists.
        if (
            not await self._verify(hashed, password, familiar, pair_of(username, address))
            or row is None
            or row.disabled
        ):
            await self._throttle.failed(username, address)
            raise _wrong_password()
        try:
            async with self._database.begin() as transaction:
                pair = await self._tokens.issue(user_of(row), within=transaction)
                await self._throttle.succeeded(username, address, within=transaction)
        except NotSignedIn:  # disabled, deleted or given a new password while this one was verified
            raise _wrong_password() from None
        return pair

    async def _verify(self, hashed: str | None, password: str, familiar: bool, pair: bytes) -> bool:
        """Verify in the lane of those who are known here, where each has one place: a known one may be the flood."""
        if not familiar or pair in self._verifying:
            return await self._passwords.verify(hashed, password)
        self._verifying.add(pair)
        try:
            return await self._passwords.verify(hashed, password, familiar=True)
        finally:
            self._verifying.discard(pair)


def _wrong_password() -> WrongPassword:
    return WrongPassword("The user name or the password is wrong.")
