"""Signing in with a password: throttle, check, start a session."""

import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import timedelta
from hashlib import sha256
from typing import Final

import msgspec

from portico.accounts.names import name_key
from portico.accounts.passwords import Passwords, busy, check_password, check_uncommon
from portico.accounts.sessions import Sessions, TokenPair, check_address
from portico.accounts.throttle import KeyedLock, QueueFull, SignInAttempt, Throttle, TokenBucket, Treatment, attempt_of
from portico.model.errors import AccountDisabled, AccountExpired, NotSignedIn, WrongPassword
from portico.runtime import clock
from portico.store.database import Database
from portico.store.encrypted_columns import Confidential
from portico.store.sessions import Session
from portico.store.users import User, UserRecords

LIFETIME: Final = timedelta(days=90)
MAX_PROOFS: Final = 4
"""Users of one browser whose proofs are kept; the oldest proof is dropped first."""

_NONCE, _EXPIRY, _TAG = 16, 8, 24
_PROOF = re.compile(r"[A-Za-z0-9_-]{64}")
_MAX_LENGTH = MAX_PROOFS * 65
_SEPARATOR = "."


class Devices:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def known(self, presented: str, user_id: int, password_hash: str) -> bytes | None:
        """The id of the device, if one of the presented proofs is for this user and password."""
        for proof in _proofs(presented):
            if (nonce := self._nonce(proof, user_id, password_hash)) is not None:
                return nonce
        return None

    def renewed(self, presented: str, user_id: int, password_hash: str) -> str:
        """What the device presents from now on: a new proof for this user, and its proofs for others."""
        others = [one for one in _proofs(presented) if self._nonce(one, user_id, password_hash) is None]
        return _SEPARATOR.join([self._issue(user_id, password_hash), *others][:MAX_PROOFS])

    def _issue(self, user_id: int, password_hash: str) -> str:
        expires_at = clock.now() + clock.milliseconds(LIFETIME)
        signed = expires_at.to_bytes(_EXPIRY) + secrets.token_bytes(_NONCE)
        return urlsafe_b64encode(signed + self._tag(signed, user_id, password_hash)).decode()

    def _nonce(self, proof: str, user_id: int, password_hash: str) -> bytes | None:
        raw = urlsafe_b64decode(proof)
        signed, tag = raw[:-_TAG], raw[-_TAG:]
        if not hmac.compare_digest(tag, self._tag(signed, user_id, password_hash)):
            return None
        return signed[_EXPIRY:] if int.from_bytes(signed[:_EXPIRY]) > clock.now() else None

    def _tag(self, signed: bytes, user_id: int, password_hash: str) -> bytes:
        message = signed + user_id.to_bytes(8) + password_hash.encode()
        return hmac.digest(self._key, message, sha256)[:_TAG]


def _proofs(presented: str) -> list[str]:
    if len(presented) > _MAX_LENGTH:
        return []
    return [proof for proof in presented.split(_SEPARATOR) if _PROOF.fullmatch(proof)]


class SignedIn(Confidential, msgspec.Struct, frozen=True):
    tokens: TokenPair
    device: str
    """Proofs that the device sends at its next sign-in, to be recognized. They grant nothing."""


FAMILIAR_BURST, FAMILIAR_RATE = 20, 5.0
"""Sign-ins of one user in the familiar lane of each worker: a burst, then a rate per second."""

MAX_WRITES = 32
"""Sign-ins of one user with a correct password that wait for the database, in each worker."""


class SignIn:
    def __init__(
        self, database: Database, passwords: Passwords, throttle: Throttle, sessions: Sessions, devices: Devices
    ) -> None:
        self._database = database
        self._users = UserRecords(database)
        self._passwords = passwords
        self._throttle = throttle
        self.credential_failed = throttle.credential_failed
        self._sessions = sessions
        self._devices = devices
        self._writes = KeyedLock(MAX_WRITES)
        self._allowance = TokenBucket(burst=FAMILIAR_BURST, rate=FAMILIAR_RATE)

    async def with_password(
        self, username: str, password: str, address: str, device: str = "", agent: str = ""
    ) -> SignedIn:
        """Tokens for the user; `WrongPassword` (`AccountDisabled` or `AccountExpired` if only that is wrong), `AddressNotAllowed` if only
        that is wrong, or `TooManyRequests` with the seconds to wait.

        `device` is an earlier `SignedIn.device`, if there is one; `agent` is what the client calls itself.
        """
        user, hashed, attempt = await self._verified(username, password, address, device)
        try:
            # One at a time for each user, so that one account does not fill the queue of writers.
            async with self._writes.hold(attempt.name):
                pair = await self._sessions.issue(
                    user, along=[self._throttle.success(attempt)], device=agent, address=address
                )
        except QueueFull:
            raise busy() from None
        except NotSignedIn:  # the user changed while the password was verified
            raise _wrong_password() from None
        return SignedIn(pair, self._devices.renewed(device, user.id, hashed or ""))

    async def verify(self, username: str, password: str, address: str) -> User:
        """The user with this name and password, without a session; the errors are those of `with_password`."""
        return (await self._verified(username, password, address))[0]

    async def _verified(
        self, username: str, password: str, address: str, device: str = ""
    ) -> tuple[User, str | None, SignInAttempt]:
        user, hashed = await self._users.find(name_key(username))
        # For an unknown user this finds nothing, in the same time.
        known = self._devices.known(device, user.id if user else 0, hashed or "")
        attempt = attempt_of(username, address, known)
        treatment = await self._throttle.check(attempt)
        if treatment is Treatment.DELAYED:
            await self._throttle.wait(attempt)
        # Successes count too, so that one account that signs in all the time leaves room for others.
        familiar = treatment is not Treatment.STRANGER and self._allowance.take(attempt.name)
        # The password of a user who may not act is verified too: the time must not reveal that the account exists.
        matches = await self._passwords.verify(hashed, password, attempt, familiar=familiar)
        if not matches or user is None or not user.may_act(self._database.now()):
            await self._throttle.failed(attempt)
            if not matches or user is None:
                raise _wrong_password()
            raise (AccountDisabled if user.disabled else AccountExpired)(_wrong_password().detail)
        # Only after the right password: an address must not tell who has an account. A wrong one was counted above.
        check_address(user, address)
        return user, hashed, attempt

    async def change_password(self, session: Session, old: str, new: str, address: str) -> None:
        """Set another password and end all other sessions of the user. The old password is throttled as a sign-in is."""
        user = session.user
        check_password(new)
        check_uncommon(new, user.name)
        _, hashed = await self._users.find(user.id)
        attempt = attempt_of(user.name, address)
        if await self._throttle.check(attempt) is Treatment.DELAYED:
            await self._throttle.wait(attempt)
        if not await self._passwords.verify(hashed, old, attempt):
            await self._throttle.failed(attempt)
            raise WrongPassword("The current password is wrong. Check it and try again.")
        values = {"password_hash": await self._passwords.hash(new), "password_changed_at": self._database.now()}
        success = self._throttle.success(attempt)
        if not await self._users.change_password(user, hashed, values, session=session.family, success=success):
            raise WrongPassword("The password was changed in the meantime; sign in again.")
        self._sessions.forget()


def _wrong_password() -> WrongPassword:
    return WrongPassword("The user name or password is wrong. Check both and try again.")
