"""SFTPGo: built once from its Go module, and started with one user."""

import json
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path
from ssl import CERT_NONE, PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any

from bench.load import Target
from bench.processes import ROOT, Process, free_port
from bench.servers import PASSWORD, S3_KEY, S3_SECRET, basic
from bench.workspace import Workspace, say

MODULE, VERSION = "github.com/drakkan/sftpgo/v2", "v2.7.5"
TAGS = "nogcs,noazblob,nobolt,nomysql,nopgsql"
"""What the bench does not use; it makes the program smaller and its start faster."""
USER = "bench"
FILES, DIRS, UPLOAD, HEALTH = ("/api/v2/user/files", "/api/v2/user/dirs", "/api/v2/user/files/upload", "/healthz")
ACTIONS, ZIP = "/api/v2/user/file-actions", "/api/v2/user/streamzip"
TOKEN, SHARES, USER_SHARES = "/api/v2/user/token", "/api/v2/shares", "/api/v2/user/shares"
_BUILD_SECONDS = 1800


class NotBuilt(Exception):
    """Why there is no SFTPGo to compare with."""


class Sftpgo(Process):
    """Its REST API with one user, who has all rights in a folder or a bucket. It uses all cores by itself."""

    def __init__(
        self,
        work: Workspace,
        folder: Path,
        *,
        tls: bool = False,
        atomic: bool = False,
        users_in_memory: bool = False,
        bucket: dict[str, str] | None = None,
        request_log: bool = False,
        web: bool = False,
        home: Path | None = None,
    ) -> None:
        """`home`: of one that ran before, with its users. `atomic`: an upload is written beside its place and renamed, as Portico does. `users_in_memory`: instead of
        in SQLite, its default. `web`: with its web pages, as Portico has them. `bucket`: the options of an S3 store, which its files are then in."""
        program = built()
        port = free_port()
        self.target = Target(port, tls)
        self.home = place = home or work.make(f"sftpgo-{port}")
        (place / "users.json").write_text(
            json.dumps({"users": [_user(folder, bucket)], "admins": [_ADMIN], "version": 16})
        )
        binding = {
            "port": port,
            "address": "127.0.0.1",
            "enable_rest_api": True,
            "enable_web_admin": web,
            "enable_web_client": web,
            "enable_https": tls,
            "certificate_file": str(work.certificate) if tls else "",
            "certificate_key_file": str(work.key) if tls else "",
        }
        configuration = {
            "common": {"upload_mode": 1 if atomic else 0, "max_per_host_connections": 0},
            "httpd": {
                "bindings": [binding],
                "templates_path": str(program / "templates"),
                "static_files_path": str(program / "static"),
                "max_upload_file_size": 0,
            },
            "smtp": {"templates_path": str(program / "templates")},
            "data_provider": {"driver": "memory", "name": ""}
            if users_in_memory
            else {"driver": "sqlite", "name": "users.db"},
            **{service: {"bindings": [{"port": 0}]} for service in ("sftpd", "ftpd", "webdavd")},
        }
        (place / "sftpgo.json").write_text(json.dumps(configuration))
        super().__init__(
            "SFTPGo",
            [
                *(str(program / "sftpgo"), "serve", "--config-dir", str(place), "--log-file-path", ""),
                *("--log-level", "info" if request_log else "error"),
                *(() if home else ("--loaddata-from", str(place / "users.json"))),
            ],
            port,
            log=place / "output.log",
            environment={"SSL_CERT_FILE": str(work.certificate)},
        )

    def bearer(self) -> dict[str, str]:
        """The authorization header of its user."""
        return {"Authorization": f"Bearer {self._asked(TOKEN, basic(USER, PASSWORD))['access_token']}"}

    def api_key(self) -> str:
        """A new key of its user."""
        token = self._asked("/api/v2/token", basic(_ADMIN["username"], PASSWORD))["access_token"]
        body = json.dumps({"name": "bench", "scope": 2, "user": USER}).encode()
        return str(self._asked("/api/v2/apikeys", {"Authorization": f"Bearer {token}"}, body)["key"])

    def _asked(self, path: str, headers: dict[str, str], body: bytes | None = None) -> Any:
        context = SSLContext(PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = CERT_NONE
        asked = urllib.request.Request(f"{self.target.url}{path}", data=body, headers=headers)
        with urllib.request.urlopen(asked, context=context if self.target.tls else None) as answer:
            return json.load(answer)


_ADMIN: dict[str, Any] = {"username": "admin", "password": PASSWORD, "status": 1, "permissions": ["*"]}


def _user(folder: Path, bucket: dict[str, str] | None) -> dict[str, Any]:
    filesystem: dict[str, Any] = {"provider": 0}
    if bucket:
        filesystem = {
            "provider": 1,
            "s3config": {
                "bucket": bucket["bucket"],
                "region": bucket["region"],
                "endpoint": bucket["endpoint_url"],
                "access_key": S3_KEY,
                "access_secret": {"status": "Plain", "payload": S3_SECRET},
                "force_path_style": True,
            },
        }
    return {
        "username": USER,
        "password": PASSWORD,
        "status": 1,
        "home_dir": str(folder),
        "permissions": {"/": ["*"]},
        "filesystem": filesystem,
        "filters": {"allow_api_key_auth": True},
    }


def missing() -> str:
    """Why there is no SFTPGo; empty if there is."""
    try:
        built()
    except NotBuilt as reason:
        return str(reason)
    return ""


def built() -> Path:
    """The folder with the program `sftpgo` and its templates. It is built once, into .cache."""
    home = ROOT / ".cache" / "bench" / f"sftpgo-{VERSION}"
    if home.exists():
        return home
    program = shutil.which("go")
    if not program:
        raise NotBuilt("Go is not installed, so SFTPGo could not be built")
    say(f"building SFTPGo {VERSION} from its Go module (once; several minutes) …")
    place = home.with_name(f"{home.name}-building-{os.getpid()}")
    (place / "done").mkdir(parents=True)
    downloaded = _go(program, place, "mod", "download", "-json", f"{MODULE}@{VERSION}")
    # A copy, because a module with `replace` lines can only be built as the main module, and the cache is read-only.
    source = place / "source"
    shutil.copytree(json.loads(downloaded)["Dir"], source, copy_function=shutil.copyfile)
    for writable in (source, *(path for path in source.rglob("*") if path.is_dir())):
        writable.chmod(0o755)
    _go(program, source, "build", "-trimpath", "-tags", TAGS, "-o", str(place / "done" / "sftpgo"), ".")
    for folder in ("templates", "static"):
        shutil.move(source / folder, place / "done")
    (place / "done").rename(home)
    shutil.rmtree(place)
    return home


def _go(program: str, folder: Path, *words: str) -> str:
    environment = {**os.environ, "CGO_ENABLED": "1", "GOFLAGS": "-buildvcs=false"}
    done = subprocess.run(
        [program, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=_BUILD_SECONDS
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it did not say why"]
        raise NotBuilt(f"go {words[0]} failed, so SFTPGo could not be built: {said[-1]}")
    return done.stdout
