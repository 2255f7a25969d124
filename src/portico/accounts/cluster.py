"""What all nodes that share a database must agree on: the first one writes it there, the others compare."""

import pathlib
from collections.abc import Mapping
from types import MappingProxyType

from portico.accounts.vault import VARIABLE, SecretKey
from portico.model.errors import PorticoError
from portico.store.cluster import KEY, ClusterRecords


class ClusterMismatch(PorticoError, code="cluster-mismatch"):
    """This node is not like the others."""


class Cluster(ClusterRecords):
    async def load_key(self, file: pathlib.Path) -> SecretKey:
        """This node's secret key, if it is that of the cluster. Only the first node makes one."""
        key = await self.own_key(file) or SecretKey.load(file)
        await self.agree({KEY: key.fingerprint()})
        return key

    async def own_key(self, file: pathlib.Path) -> SecretKey | None:
        """As `load_key`, but neither a key nor a row is made: None if neither exists yet."""
        known = (await self.identity()).get(KEY)
        if not SecretKey.exists(file):
            if known is not None:
                raise key_missing(f"the database {self._database.name}", file, _LOST)
            return None
        key = SecretKey.load(file)
        if known not in (None, key.fingerprint()):
            raise self._mismatch(KEY)
        return key

    async def agree(
        self, mine: Mapping[str, str], generated: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, str]:
        """What holds for all nodes, by name; `ClusterMismatch` if `mine` differs.

        What is empty in `mine` is as the database has it; if no node has set it yet, it is as in `generated`.
        """
        known = await self.identity()
        new = {name: value or generated.get(name, "") for name, value in mine.items() if name not in known}
        for name, value in new.items():
            if value:
                await self.add(name, value)
        if new:
            known = await self.identity()
        for name, value in mine.items():
            if value and known[name] != value:
                raise self._mismatch(name)
        return {name: known.get(name, "") for name in mine}

    async def differences(self, file: pathlib.Path, mine: Mapping[str, str]) -> list[ClusterMismatch]:
        """What `load_key` and `agree` would refuse; nothing is changed."""
        found = []
        try:
            await self.own_key(file)
        except ClusterMismatch as error:
            found.append(error)
        known = await self.identity()
        return found + [
            self._mismatch(name) for name, value in mine.items() if value and known.get(name, value) != value
        ]

    def other_key(self) -> ClusterMismatch:
        return key_differs(f"the gateway behind the database {self._database.name}", _LOST)

    def _mismatch(self, name: str) -> ClusterMismatch:
        if name == KEY:
            return self.other_key()
        return ClusterMismatch(
            f"The setting {name} differs from the other nodes on the database {self._database.name}; "
            "set it to the same value, or remove it here. To change it everywhere, stop all nodes "
            "and run 'portico cluster forget' first."
        )


def key_missing(what: str, file: pathlib.Path, if_lost: str) -> ClusterMismatch:
    return ClusterMismatch(
        f"This node lacks the secret key of {what}; copy secret.key from the gateway that has it to "
        f"{file}, or set {VARIABLE}. {if_lost}"
    )


def key_differs(what: str, if_lost: str) -> ClusterMismatch:
    return ClusterMismatch(
        f"This node's secret key is not the one of {what}; copy secret.key from a working node, or "
        f"set {VARIABLE} to its content. {if_lost}"
    )


_LOST = "If the key is lost, run 'portico cluster forget' and add the connections again."
