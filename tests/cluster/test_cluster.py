"""Two nodes on one PostgreSQL: real processes, an S3, and what goes wrong between them."""

import subprocess
from collections.abc import Iterator

import pytest

from ..clusters import Cluster, names, running_cluster
from ..faults.checks.endings import end_everything
from ..gateways import FILES, wait_until
from ..servers.postgres import PostgresServer


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def test_a_file_that_one_node_stores_is_listed_by_the_other(cluster: Cluster) -> None:
    one, two = cluster.nodes
    with cluster.client(one) as here, cluster.client(two) as there:
        assert here.post(f"{FILES}/", files={"data": ("a.txt", b"hello")}).status_code == 204
        assert "a.txt" in names(there)
        # A token of one node is valid on all of them, and so is a cursor.
        here.headers["Authorization"] = there.headers["Authorization"]
        assert here.get(f"{FILES}/a.txt").content == b"hello"


def test_nothing_appears_by_itself_in_a_shared_database(cluster: Cluster) -> None:
    assert "web" not in cluster.nodes[1].command("user", "list").split()
    assert "local" not in cluster.nodes[1].command("connection", "list")
    assert not (cluster.nodes[0].home / "files").exists()


def test_the_client_is_made_once(cluster: Cluster) -> None:
    identity = dict(cluster.identity())
    assert identity["security.client-id"].startswith("portico-")
    assert "security.client-id=portico" not in (cluster.nodes[0].home / "application.properties").read_text()


def _refusal(cluster: Cluster, name: str, *words: str, stdin: str = "", **settings: str) -> str:
    node = cluster.node(name, **settings)
    with pytest.raises(subprocess.CalledProcessError) as error:
        node.command(*words, stdin=stdin)
    return str(error.value.stderr)


def test_another_key_is_refused(cluster: Cluster) -> None:
    other = {"PORTICO_SECRET_KEY": "A" * 43}
    for number, words in enumerate(
        [
            ("serve", "--port", "1"),
            ("connection", "add", "more", "--kind", "local", "--option", "folder=/srv"),
            ("user", "add", "bob", "--connection", "files"),
        ]
    ):
        assert "This node's secret key is not the one of the gateway" in _refusal(
            cluster, f"other{number}", *words, **other
        )


def test_a_node_without_the_key_makes_none(cluster: Cluster) -> None:
    refusal = _refusal(cluster, "keyless", "serve", "--port", "1", PORTICO_SECRET_KEY="")
    assert "This node lacks the secret key" in refusal
    assert not (cluster.folder / "keyless" / "home" / "secret.key").exists()


def test_another_client_or_public_address_is_refused(cluster: Cluster) -> None:
    refusal = _refusal(cluster, "client", "serve", "--port", "1", PORTICO_SECURITY_CLIENT_ID="mine")
    assert "The setting security.client-id differs" in refusal


def test_what_ends_on_one_node_ends_on_the_other(cluster: Cluster) -> None:
    """How soon, and after an administrator's commands, `make soak ARGS=endings` measures."""
    figures = end_everything(cluster, all_of_them=False)
    assert [figure for figure in figures if not (figure.reached or figure.timed)] == []


def test_what_was_acknowledged_survives_the_loss_of_a_node_and_of_the_database(cluster: Cluster) -> None:
    one, two = cluster.nodes
    stored = []
    with cluster.client(one) as here, cluster.client(two) as there:
        for number in range(20):
            assert here.post(f"{FILES}/", files={"data": (f"kept-{number}", b"x")}).status_code == 204
            stored.append(f"kept-{number}")
        one.kill()
        cluster.database.stop()
        refused = there.post(f"{FILES}/", files={"data": ("refused", b"x")})
        assert refused.status_code == 503
        assert "retry-after" in refused.headers
        cluster.database.start()
        wait_until(two.ready, "the node is ready again")
        assert set(stored) <= set(names(there))
        one.start()
        wait_until(one.ready, "the killed node is back")


def test_rename_finds_a_free_name_on_every_node(cluster: Cluster, postgres: PostgresServer) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with cluster.client(cluster.nodes[0]) as here, cluster.client(cluster.nodes[1]) as there:

        def upload(number: int) -> int:
            client = (here, there)[number % 2]
            answer = client.post(
                f"{FILES}/Renamed?onConflict=rename", files={"data": ("scan.pdf", str(number).encode())}
            )
            return int(answer.status_code)

        with ThreadPoolExecutor(8) as threads:
            assert set(threads.map(upload, range(24))) == {204}
        assert len(names(here, "Renamed")) == 24


def test_a_job_of_one_node_is_seen_by_the_other(cluster: Cluster) -> None:
    one, two = cluster.nodes
    with cluster.client(one) as here, cluster.client(two) as there:
        for name in ("1", "2"):
            assert here.post(f"{FILES}/tree", files={"data": (name, b"x")}).status_code == 204
        copy = f"{FILES}/tree?action=COPY&target=/copy"
        answer = here.post(copy, headers={"Prefer": "respond-async, wait=0"})
        assert answer.status_code == 202
        place = answer.headers["Location"]
        wait_until(lambda: there.get(place).json()["state"] != "running", "the job has ended")
        job = there.get(place).json()
        assert (job["state"], job["result"], job["entriesDone"], job["bytesDone"]) == ("done", "/copy", 2, 2)
        assert there.delete(place).json() == job
        assert here.get(place).status_code == 404
