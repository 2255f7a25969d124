"""Signing in with a password: throttle, password and token in one place."""

from dataclasses import dataclass, field

from sqlalchemy import select

from portico.accounts.allowance import Allowance
from portico.accounts.attempts import attempt_of
from portico.accounts.devices import Devices
from portico.accounts.names import name_key
from portico.accounts.passwords import Passwords, busy
from portico.accounts.throttle import Standing, Throttle
from portico.accounts.tokens import TokenPair, Tokens
from portico.accounts.turns import LineFull, Turns
from portico.accounts.users import USER_COLUMNS, user_of
from portico.errors import NotSignedIn, PorticoError
from portico.store.database import Database
from portico.store.tables import users


class WrongPassword(PorticoError):
    """The same for a wrong password, an unknown user and a disabled one."""

    code = "wrong-password"


@dataclass(frozen=True, slots=True)
class SignedIn:
    tokens: TokenPair
    device: str = field(repr=False)
    """What the device may present at the next sign-in, to be known again. It opens nothing."""


FAMILIAR_BURST, FAMILIAR_RATE = 20, 5.0
"""Sign-ins of one user in the lane of those who are known: so many at once, then so many a second, in each worker."""

MOST_WRITING = 32
"""Sign-ins of one user whose password was right and that wait for the database, in each worker."""


class SignIn:
    def __init__(
        self, database: Database, passwords: Passwords, throttle: Throttle, tokens: Tokens, devices: Devices
    ) -> None:
        self._database = database
        self._passwords = passwords
        self._throttle = throttle
        self._tokens = tokens
        self._devices = devices
        self._writing = Turns(MOST_WRITING)
        self._allowance = Allowance(burst=FAMILIAR_BURST, rate=FAMILIAR_RATE)

    async def with_password(self, username: str, password: str, address: str, device: str = "") -> SignedIn:
        """Tokens for the user; `WrongPassword`, or `TooManyRequests` with the seconds to wait.

        `device` is what was given as `SignedIn.device` before, if anything.
        """
        query = select(*USER_COLUMNS, users.c.password_hash).where(users.c.name_key == name_key(username))
        async with self._database.connect() as reading:
            row = (await reading.execute(query)).first()
            # Of nobody there is no proof, and to find that out takes as long.
            known = self._devices.known(device, row.id if row else 0, row.password_hash if row else "")
            attempt = attempt_of(username, address, known)
            standing = await self._throttle.check(attempt, within=reading)
        if standing is Standing.SPACED:
            await self._throttle.wait(attempt)
        # Successes count, too: one account that signs in all the time leaves the lane to the others.
        familiar = standing is not Standing.STRANGER and self._allowance.take(attempt.name)
        hashed = None if row is None else row.password_hash
        # A disabled user's password is verified all the same: the time must not tell that the account exists.
        matches = await self._passwords.verify(hashed, password, attempt, familiar=familiar)
        if not matches or row is None or row.disabled:
            await self._throttle.failed(attempt)
            raise _wrong_password()
        try:
            # One of a user at a time, so that one account does not fill the line of those who write.
            async with self._writing.taken(attempt.name), self._database.begin() as transaction:
                pair = await self._tokens.issue(user_of(row), within=transaction)
                await self._throttle.succeeded(attempt, within=transaction)
        except LineFull:
            raise busy() from None
        except NotSignedIn:  # disabled, deleted or given a new password while this one was verified
            raise _wrong_password() from None
        return SignedIn(pair, self._devices.renewed(device, row.id, row.password_hash))

    async def refresh_failed(self, address: str) -> None:
        """Count a refresh token that is none; `TooManyRequests` if there were too many from that address."""
        await self._throttle.refresh_failed(address)


def _wrong_password() -> WrongPassword:
    return WrongPassword("The user name or the password is wrong.")
