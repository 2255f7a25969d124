import asyncio
import pathlib

import pytest

from portico.accounts.cluster import Cluster, ClusterMismatch
from portico.accounts.vault import SecretKey
from portico.store.database import Database

SETTINGS = {"security.client-id": "portico-x", "server.public-url": ""}


@pytest.fixture
def cluster(database: Database) -> Cluster:
    return Cluster(database)


async def test_the_first_node_makes_the_key_and_the_others_need_it(cluster: Cluster, tmp_path: pathlib.Path) -> None:
    one, two = tmp_path / "one.key", tmp_path / "two.key"
    key = await cluster.load_key(one)
    assert (await cluster.load_key(one)).text() == key.text()
    with pytest.raises(ClusterMismatch, match=f"lacks the secret key.*copy secret.key.*{two}.*PORTICO_SECRET_KEY"):
        await cluster.load_key(two)
    assert not two.exists()
    two.write_text(SecretKey.generate().text())
    with pytest.raises(ClusterMismatch, match=r"is not the one of the gateway.*copy secret\.key"):
        await cluster.load_key(two)
    two.write_text(key.text())
    await cluster.load_key(two)


async def test_the_database_does_not_hold_the_key(cluster: Cluster, tmp_path: pathlib.Path) -> None:
    key = await cluster.load_key(tmp_path / "secret.key")
    assert key.text() not in str(await cluster.identity())


async def test_settings_are_compared(cluster: Cluster) -> None:
    assert await cluster.agree(SETTINGS) == SETTINGS
    assert await cluster.agree(SETTINGS | {"server.public-url": "https://a"}) == {
        "security.client-id": "portico-x",
        "server.public-url": "https://a",
    }
    for name, value in (("security.client-id", "other"), ("server.public-url", "https://b")):
        with pytest.raises(ClusterMismatch, match=f"The setting {name} differs .* 'portico cluster forget'"):
            await cluster.agree(SETTINGS | {name: value})
    await cluster.forget()
    assert (await cluster.agree({"security.client-id": "other"})) == {"security.client-id": "other"}


async def test_what_no_node_sets_is_made_once(cluster: Cluster) -> None:
    made = await asyncio.gather(
        *(cluster.agree({"security.client-id": ""}, {"security.client-id": f"id-{n}"}) for n in range(8))
    )
    assert len({each["security.client-id"] for each in made}) == 1
