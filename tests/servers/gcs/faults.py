"""What a test lets go wrong: each fault meets the next requests that it matches, a number of times."""

import re
from dataclasses import dataclass, field


@dataclass
class Status:
    """An answer without the service having done anything; the body is taken before, unless it is `early`."""

    status: int = 503
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    early: bool = False


@dataclass
class Answer:
    """What the service answers is replaced, after it did what was asked."""

    body: bytes
    status: int = 200


@dataclass
class DropAnswer:
    """The service does what is asked, and its answer is lost."""


@dataclass
class CutBody:
    """The connection is reset after so many bytes of the request's body; or, on a download, of the answer's."""

    after: int


@dataclass
class Silence:
    """The service takes the request and says nothing, before or after it did what was asked."""

    afterwards: bool = False


@dataclass
class Fault:
    what: Status | Answer | DropAnswer | CutBody | Silence
    method: str = ""
    address: str = ""
    """A pattern that is searched for in path and query, percent-encoded as they came."""
    times: int = 1
    skip: int = 0
    """Matching requests that are let through before."""

    def meets(self, method: str, address: str) -> bool:
        if self.times == 0 or self.method not in ("", method) or not re.search(self.address, address):
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times -= 1
        return True
