"""Writes the passwords and keys of the cluster into volumes, at the first start only."""

import json
import os
import secrets
import sys
from base64 import urlsafe_b64encode
from pathlib import Path

OWNER = 10001  # as in the Containerfile


def write(file: Path, content: str, owner: int | None = None) -> None:
    """Whole or not at all. Without an owner, everybody in the containers that mount the volume may read it."""
    draft = file.with_name(f"{file.name}.draft")
    draft.write_text(content)
    draft.chmod(0o444 if owner is None else 0o400)
    if owner is not None:
        os.chown(draft, owner, owner)
    draft.rename(file)


def main(run: Path) -> None:
    portico = run / "portico"
    if (portico / "complete").exists():
        return
    password, access_key, secret_key = (secrets.token_urlsafe(24) for _ in range(3))
    write(run / "postgres" / "password", password)
    credentials = {"accessKey": access_key, "secretKey": secret_key}
    identity = {"name": "portico", "credentials": [credentials], "actions": ["Admin"]}
    write(run / "s3" / "s3.json", json.dumps({"identities": [identity]}))
    values = {
        "secret-key": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "database-url": f"postgresql://portico:{password}@postgres/portico",
        "s3-credentials": f"access-key-id={access_key}\nsecret-access-key={secret_key}\n",
        "web-password": secrets.token_urlsafe(12),
        "complete": "",
    }
    for name, content in values.items():
        write(portico / name, content, OWNER)


if __name__ == "__main__":
    main(Path(*sys.argv[1:2] or ["/run"]))
