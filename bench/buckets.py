"""Real S3 stores on this machine: SeaweedFS where it is installed, and rclone's own over a folder."""

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
from botocore.config import Config

from bench.load import Target
from bench.processes import Process, free_port
from bench.servers import S3_KEY, S3_SECRET
from bench.stores import s3_options
from bench.workspace import Workspace

BUCKET = "bench"
_BIN = Path(sys.executable).parent
_READY_SECONDS = 120.0


class Bucket(Process):
    """A store with one bucket; what it holds lies in a folder of its own."""

    folder: Path
    target: Target
    certificate: str | None = None
    """By which it is known, if it speaks TLS."""

    @property
    def url(self) -> str:
        return self.target.url

    @property
    def s3(self) -> dict[str, str]:
        return s3_options(self.url)

    def client(self) -> Any:
        return client(self.url, self.certificate)

    def signed(self, operation: str, **parameters: Any) -> str:
        """An address at which this one operation needs no other signature."""
        return str(self.client().generate_presigned_url(operation, {"Bucket": BUCKET, **parameters}, 3600))

    def _make_bucket(self) -> None:
        end = time.monotonic() + _READY_SECONDS
        while True:
            try:
                self.client().create_bucket(Bucket=BUCKET)
                return
            except Exception:
                if time.monotonic() > end:
                    self.stop()
                    raise
                time.sleep(0.3)


def client(url: str, verify: str | None = None) -> Any:
    """boto3's client, as it comes but for trailing checksums, which `rclone serve s3` does not know."""
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=S3_KEY,
        aws_secret_access_key=S3_SECRET,
        verify=verify,
        config=Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            max_pool_connections=32,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


class RcloneBucket(Bucket):
    """`rclone serve s3`: it keeps the parts of an upload in memory until that is completed."""

    def __init__(self, work: Workspace, *, tls: bool = False) -> None:
        port = free_port()
        self.target = Target(port, tls)
        self.folder = work.make(f"rclone-s3-{port}")
        self.certificate = str(work.certificate) if tls else None
        secrets = ["--cert", str(work.certificate), "--key", str(work.key)] if tls else []
        super().__init__(
            "rclone serve s3",
            [
                *(str(_BIN / "rclone"), "serve", "s3", "--addr", f"127.0.0.1:{port}", *secrets),
                *("--auth-key", f"{S3_KEY},{S3_SECRET}", "--vfs-cache-mode", "off", "--log-level", "ERROR"),
                *("--config", os.devnull, "--no-modtime", "--no-checksum", str(self.folder)),
            ],
            port,
            log=work.folder / f"rclone-s3-{port}.log",
        )
        self._make_bucket()


class Weed(Bucket):
    """SeaweedFS: master, volume server, filer and S3 gateway in one process."""

    patience = 0.5  # it takes its time, and nothing that it holds is wanted any more

    def __init__(self, work: Workspace) -> None:
        port = free_port()
        self.target = Target(port)
        self.folder = work.make(f"weed-{port}")
        credentials = {"accessKey": S3_KEY, "secretKey": S3_SECRET}
        identity = {"name": "bench", "credentials": [credentials], "actions": ["Admin"]}
        (self.folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        names = ("master.port", "volume.port", "filer.port")
        ports = [f"-{name}{kind}={free_port()}" for name in names for kind in ("", ".grpc")]
        program = weed_program()
        assert program
        super().__init__(
            "SeaweedFS",
            [
                *(program, "-logtostderr=true", "server", f"-dir={self.folder}", "-ip=127.0.0.1"),
                *("-ip.bind=127.0.0.1", *ports, "-filer", "-s3", f"-s3.port={port}"),
                *(
                    f"-s3.port.grpc={free_port()}",
                    "-s3.port.iceberg=0",
                    "-s3.port.lance=0",
                    f"-s3.config={self.folder}/s3.json",
                ),
                *("-volume.max=8", "-master.volumeSizeLimitMB=4096", "-filer.maxMB=16"),
            ],
            port,
            log=work.folder / f"weed-{port}.log",
        )
        self._make_bucket()


def weed_program() -> str | None:
    return shutil.which("weed", path=f"{_BIN}{os.pathsep}{os.environ.get('PATH', '')}")


def real_bucket(work: Workspace) -> Bucket:
    return Weed(work) if weed_program() else RcloneBucket(work)
