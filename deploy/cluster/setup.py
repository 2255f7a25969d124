"""Makes the bucket, the connection to it and the user `web`, if they are missing."""

import os
import subprocess
from pathlib import Path

import botocore.session

SECRETS = Path(os.environ.get("SECRETS", "/run/portico"))
STORE = os.environ.get("STORE", "http://s3:8333")
BUCKET = "portico"


def portico(*arguments: str, content: str = "") -> bool:
    return subprocess.run(["portico", *arguments], input=content, text=True, check=False).returncode == 0


def exists(kind: str, name: str) -> bool:
    return subprocess.run(["portico", kind, "show", name], capture_output=True, check=False).returncode == 0


def make_bucket(credentials: dict[str, str]) -> None:
    store = botocore.session.get_session().create_client(
        "s3",
        endpoint_url=STORE,
        region_name="us-east-1",
        aws_access_key_id=credentials["access-key-id"],
        aws_secret_access_key=credentials["secret-access-key"],
    )
    if BUCKET not in [bucket["Name"] for bucket in store.list_buckets().get("Buckets", [])]:
        store.create_bucket(Bucket=BUCKET)


def main() -> None:
    text = (SECRETS / "s3-credentials").read_text()
    make_bucket(dict(line.split("=", 1) for line in text.splitlines()))
    Path(os.environ["PORTICO_HOME"], "application.properties").touch()  # the commands expect a home that exists
    if not exists("connection", "files"):
        options = {"bucket": BUCKET, "region": "us-east-1", "endpoint-url": STORE}
        flags = [word for key, value in options.items() for word in ("--option", f"{key}={value}")]
        added = portico("connection", "add", "files", "--kind", "s3", *flags, "--secret-stdin", content=text)
        assert added, "the connection could not be added"
    if not exists("user", "web"):
        password = (SECRETS / "web-password").read_text()
        added = portico("user", "add", "web", "--connection", "files", "--password-stdin", content=password)
        assert added, "the user could not be added"


if __name__ == "__main__":
    main()
