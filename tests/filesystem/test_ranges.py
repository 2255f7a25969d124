"""Tables on S3, through the gateway: how much is read, and with how many requests.

What reads tables is imported where it is used: 100 MB and a second, which a process without these tests saves."""

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from portico.filesystem import PorticoFileSystem

from ..gateways import FILES, Gateway, wait_until
from ..servers.moto_s3 import KEYS, moto_s3
from ..servers.s3_buckets import make_buckets, remove_buckets

if TYPE_CHECKING:
    import pandas

COLUMNS, GROUPS, ROWS = 8, 10, 25_000
MARK = "/backend/no-such-page"


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the gateway's log says of requests for files."""

    reads: int
    others: int
    bytes: int


class Cloud:
    """A gateway whose user's root is a folder of an S3 bucket."""

    def __init__(self, gateway: Gateway, options: dict[str, Any]) -> None:
        self._gateway = gateway
        self.options = options
        self.fs = PorticoFileSystem(**options)
        self._marks = 0
        self._seen = 0

    def _log(self) -> list[dict[str, Any]]:
        lines = [line for line in self._gateway.output.splitlines() if line.startswith("{")]
        return [line for line in map(json.loads, lines) if line["event"] == "request"]

    def traffic(self) -> Traffic:
        """Since the last look. A request of our own marks the end: what was answered before it is in the log."""
        self._marks += 1
        with self._gateway.client() as client:
            client.get(MARK)
        wait_until(lambda: sum(line["path"] == MARK for line in self._log()) == self._marks, "the log has the mark")
        lines = self._log()
        files = [line for line in lines[self._seen :] if line["path"].startswith(FILES)]
        self._seen = len(lines)
        reads = [line for line in files if line["method"] == "GET" and line["status"] == 206]
        return Traffic(len(reads), len(files) - len(reads), sum(line["bytes"] for line in files))


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    place = {"endpoint-url": moto_s3(), **KEYS}
    asyncio.run(make_buckets(place, ["tables"]))
    gateway = Gateway(tmp_path_factory.mktemp("cloud") / "home", "--workers", "1")
    secrets = "".join(f"{name}={value}\n" for name, value in place.items())
    gateway.command(
        *("connection", "add", "cloud", "--kind", "s3", "--option", "bucket=tables"),
        *("--option", "region=us-east-1", "--secret-stdin"),
        stdin=secrets,
    )
    gateway.command(
        *("user", "add", "ana", "--connection", "cloud", "--root", "/team", "--password-stdin"),
        stdin="correct horse battery",
    )
    gateway.start()
    yield Cloud(gateway, {"gateway": gateway.url, "username": "ana", "password": "correct horse battery"})
    gateway.stop()
    asyncio.run(remove_buckets(place, ["tables"]))


@pytest.fixture(scope="module")
def table(cloud: Cloud) -> "pandas.DataFrame":
    """Numbers that cannot be compressed, so that a column of a row group has a size that is known."""
    import numpy
    import pandas

    random = numpy.random.default_rng(1)
    values = random.integers(0, 2**62, (GROUPS * ROWS, COLUMNS))
    table = pandas.DataFrame(values, columns=[f"c{number}" for number in range(COLUMNS)])
    table["c0"] = range(len(table))
    content = io.BytesIO()
    table.to_parquet(content, row_group_size=ROWS, index=False)
    cloud.fs.pipe_file("/tables/numbers.parquet", content.getvalue())
    cloud.traffic()
    return table


CHUNK = ROWS * 8
"""About the bytes of one column of one row group."""


def pandas_column(cloud: Cloud) -> int:
    import pandas

    found = pandas.read_parquet(
        "portico:///tables/numbers.parquet",
        columns=["c5"],
        filters=[("c0", ">=", 3 * ROWS), ("c0", "<", 4 * ROWS)],
        storage_options=cloud.options,
    )
    return int(found["c5"].iloc[0])


def arrow_column(cloud: Cloud) -> int:
    import pyarrow.parquet

    with cloud.fs.open("/tables/numbers.parquet") as file:
        group = pyarrow.parquet.ParquetFile(file).read_row_group(3, ["c5"])
    return int(group["c5"][0].as_py())


def duckdb_column(cloud: Cloud) -> int:
    import duckdb

    with duckdb.connect() as connection:
        connection.register_filesystem(cloud.fs)
        found = connection.sql(
            f"select c5 from 'portico:///tables/numbers.parquet' where c0 >= {3 * ROWS} and c0 < {4 * ROWS} limit 1"
        ).fetchall()
    return int(found[0][0])


@pytest.mark.parametrize("read", [pandas_column, arrow_column, duckdb_column])
def test_a_column_of_a_row_group_is_read_by_its_ranges(
    cloud: Cloud, table: "pandas.DataFrame", read: Callable[[Cloud], int]
) -> None:
    size = cloud.fs.size("/tables/numbers.parquet")
    cloud.traffic()
    assert read(cloud) == table["c5"].iloc[3 * ROWS]
    traffic = cloud.traffic()
    # The footer, and the two columns where they lie, in whole blocks. All of it would be 80 chunks.
    assert 1 * CHUNK < traffic.bytes < size / 12
    assert traffic.reads <= 6
    assert traffic.others <= 6


def test_threads_that_read_one_file_get_what_it_holds(cloud: Cloud, table: "pandas.DataFrame") -> None:
    import duckdb
    import pandas

    sums = [int(table[name].mod(1000).sum()) for name in table]
    with duckdb.connect(config={"threads": 8}) as connection:
        connection.register_filesystem(cloud.fs)
        columns = ", ".join(f"sum({name} % 1000)::bigint" for name in table)
        found = connection.sql(f"select {columns} from 'portico:///tables/numbers.parquet'").fetchall()
    assert list(found[0]) == sums
    whole = pandas.read_parquet("portico:///tables/numbers.parquet", storage_options=cloud.options)
    assert whole.equals(table)


def test_a_folder_is_read_as_one_table(cloud: Cloud, table: "pandas.DataFrame") -> None:
    import duckdb
    import pandas

    for number in range(3):
        part = table.iloc[number * ROWS : (number + 1) * ROWS]
        part.to_parquet(f"portico:///parts/{number}.parquet", storage_options=cloud.options)
    size = cloud.fs.du("/parts")
    cloud.traffic()
    found = pandas.read_parquet("portico:///parts", columns=["c2"], storage_options=cloud.options)
    assert found["c2"].sum() == table["c2"].iloc[: 3 * ROWS].sum()
    traffic = cloud.traffic()
    assert 3 * CHUNK < traffic.bytes < size * 0.6
    assert traffic.reads <= 9
    assert traffic.others <= 9
    with duckdb.connect() as connection:
        connection.register_filesystem(cloud.fs)
        total = connection.sql("select sum(c0), count(*) from 'portico:///parts/*.parquet'").fetchall()
    assert total == [(table["c0"].iloc[: 3 * ROWS].sum(), 3 * ROWS)]
    traffic = cloud.traffic()
    assert traffic.bytes < size / 2
    assert traffic.reads <= 9
    assert traffic.others <= 12


def test_a_file_that_is_read_in_order_is_read_once_and_ahead(cloud: Cloud) -> None:
    import pandas

    lines = b"".join(b"%08d,%08d\n" % (number, number) for number in range(500_000))
    cloud.fs.pipe_file("/lines.csv", lines)
    cloud.traffic()
    with fsspec.open("portico:///lines.csv", "rt", **cloud.options) as file:
        assert sum(1 for _ in file) == 500_000
    traffic = cloud.traffic()
    assert traffic.bytes == len(lines)
    assert traffic.reads <= 8
    found = pandas.read_csv("portico:///lines.csv", header=None, storage_options=cloud.options)
    assert len(found) == 500_000
    assert cloud.traffic() == traffic
