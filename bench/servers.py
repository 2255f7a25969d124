"""Portico and its peers, each started with the options that serve it best."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from ssl import CERT_NONE, PROTOCOL_TLS_CLIENT, SSLContext

from bench.load import Target
from bench.processes import Process, free_port
from bench.workspace import Workspace

PASSWORD = "a long password of the bench"
FILES = "/backend/1.0.0/filesystem"
S3_KEY, S3_SECRET = "benchaccesskey", "benchsecretkey"
_SECRETS = ("secret-access-key", "account-key")
_BIN = Path(sys.executable).parent


class Home:
    """A gateway's home, set up with the command as an administrator would."""

    def __init__(self, work: Workspace, name: str = "home", settings: Mapping[str, str] | None = None) -> None:
        """`settings`: by the names that they have in the environment."""
        self.work = work
        self.folder = work.make(name) / "home"
        self.settings = dict(settings or {})

    def add(self, name: str, kind: str, **options: str) -> None:
        """A connection, and a Web User of the same name who sees all of it."""
        pairs = {key.replace("_", "-"): value for key, value in options.items()}
        flags = [text for key, value in pairs.items() if key not in _SECRETS for text in ("--option", f"{key}={value}")]
        secrets = [f"{key}={value}" for key, value in pairs.items() if key in _SECRETS]
        if secrets:
            flags.append("--secret-stdin")
        self.command("connection", "add", name, "--kind", kind, *flags, stdin="\n".join(secrets) + "\n")
        self.command(
            "user", "add", name, "--connection", name, "--root", "/", "--password-stdin", stdin=PASSWORD + "\n"
        )

    def key(self, user: str) -> str:
        """A new API key of this user."""
        out = self.command("key", "add", user, "--name", "bench", "--json", stdin="")
        return str(json.loads(out)["key"])

    def command(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-m", "portico", "--home", str(self.folder), *words],
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, **self.settings},
        )
        if done.returncode:
            raise RuntimeError(f"portico {' '.join(words)} failed: {done.stdout}{done.stderr}")
        return done.stdout

    @property
    def client(self) -> tuple[str, str]:
        properties = (self.folder / "application.properties").read_text()
        found = [
            re.findall(rf"^security\.client-{word}=(.*)$", properties, re.MULTILINE)[0] for word in ("id", "secret")
        ]
        return found[0], found[1]


class Portico(Process):
    def __init__(self, home: Home, *, tls: bool = False, workers: int = 1, request_log: bool = False) -> None:
        work, port = home.work, free_port()
        flags = ["--tls", f"{work.certificate},{work.key}"] if tls else ["--tls", "off"]
        command = [sys.executable, "-m", "portico", "--home", str(home.folder)]
        self.home = home
        self.target = Target(port, tls)
        super().__init__(
            "Portico",
            [*command, "serve", "--port", str(port), "--workers", str(workers), *flags],
            port,
            log=work.folder / f"portico-{port}.log",
            environment={
                "AWS_CA_BUNDLE": str(work.certificate),
                "PORTICO_LOG_LEVEL": "info" if request_log else "warning",
                **home.settings,
            },
        )

    def login_request(self, user: str) -> tuple[dict[str, str], bytes]:
        form = {"grant_type": "password", "username": user, "password": PASSWORD}
        headers = {"Content-Type": "application/x-www-form-urlencoded", **basic(*self.home.client)}
        return headers, urllib.parse.urlencode(form).encode()

    def bearer(self, user: str) -> dict[str, str]:
        """The authorization header of this user."""
        headers, body = self.login_request(user)
        context = SSLContext(PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = CERT_NONE
        request = urllib.request.Request(f"{self.target.url}/backend/login", data=body, headers=headers)
        with urllib.request.urlopen(request, context=context if self.target.tls else None) as answer:
            return {"Authorization": f"Bearer {json.load(answer)['access_token']}"}


class RcloneRcd(Process):
    """rclone's remote control: the peer that lists and takes uploads over HTTP."""

    def __init__(
        self,
        work: Workspace,
        *,
        tls: bool = False,
        stores: dict[str, str] | None = None,
        as_it_comes: bool = False,
        password: bool = False,
    ) -> None:
        """`password`: it asks for one with each request. `stores`: names of S3 remotes and their endpoints. `as_it_comes`: with its default checks, which are
        otherwise turned off."""
        port = free_port()
        self.target = Target(port, tls)
        config = work.folder / f"rclone-{port}.conf"
        config.write_text("".join(_remote(name, url) for name, url in (stores or {}).items()))
        certificate = ["--rc-cert", str(work.certificate), "--rc-key", str(work.key)] if tls else []
        super().__init__(
            "rclone rcd",
            [
                *(str(_BIN / "rclone"), "rcd", "--rc-serve"),
                *(("--rc-user", "bench", "--rc-pass", PASSWORD) if password else ("--rc-no-auth",)),
                *("--rc-addr", f"127.0.0.1:{port}", *certificate),
                *("--config", str(config), "--cache-dir", str(work.folder / "rclone-cache")),
                *("--ca-cert", str(work.certificate), "--transfers", "8", "--log-level", "ERROR"),
                # What it may leave out without losing content.
                *([] if as_it_comes else ["--ignore-checksum", "--size-only", "--local-no-check-updated"]),
            ],
            port,
            log=work.folder / f"rclone-{port}.log",
        )


def basic(user: str, password: str) -> dict[str, str]:
    """The authorization header of a user name and a password."""
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def _remote(name: str, url: str) -> str:
    options = {
        "type": "s3",
        "provider": "Other",
        "endpoint": url,
        "region": "us-east-1",
        "access_key_id": S3_KEY,
        "secret_access_key": S3_SECRET,
        "no_check_bucket": "true",
        "no_head": "true",
        "disable_checksum": "true",
        "use_multipart_etag": "false",
        "use_unsigned_payload": "true",
        "use_data_integrity_protections": "false",
        "chunk_size": "16Mi",
        "upload_concurrency": "8",
        "list_url_encode": "true",
        "list_version": "2",
    }
    return f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in options.items()) + "\n"


class Copyparty(Process):
    def __init__(self, work: Workspace, folder: Path, *, tls: bool = False, as_it_comes: bool = False) -> None:
        """`as_it_comes`: with the checksum of each upload that it computes by default."""
        port = free_port()
        self.target = Target(port, tls)
        bundle = work.folder / f"copyparty-{port}.pem"
        bundle.write_bytes(work.key.read_bytes() + work.certificate.read_bytes())
        flags = ["--https-only", "--cert", str(bundle), "--no-crt"] if tls else ["--http-only"]
        flags += [] if as_it_comes else ["--put-ck", "no", "--no-snap", "--no-dirsz", "--s-tbody", "0"]
        flags += ["--no-thumb", "--no-fnugg", "--no-ses", "--hist", str(work.folder / f"copyparty-{port}")]
        super().__init__(
            "copyparty",
            [
                *(sys.executable, "-m", "copyparty", "-q", "-i", "127.0.0.1", "-p", str(port), *flags),
                *("-v", f"{folder}::rwmd", "--wram"),  # else it refuses a folder in memory
            ],
            port,
            log=work.folder / f"copyparty-{port}.log",
            environment={"XDG_CONFIG_HOME": str(work.folder / "copyparty-config")},
        )


class Nginx(Process):
    """nginx with its DAV module: a body is written to a file as it arrives, which is renamed at its end."""

    def __init__(
        self, work: Workspace, folder: Path, *, tls: bool = False, workers: int = 2, temporary: Path | None = None
    ) -> None:
        """`temporary`: for bodies on their way; on another file system than `folder` they would be copied."""
        port = free_port()
        self.target = Target(port, tls)
        place = work.make(f"nginx-{port}")
        bodies = temporary or place
        kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        lines = [
            "user root;" if os.geteuid() == 0 else "",
            f"worker_processes {workers}; daemon off; pid {place}/pid; error_log {place}/error.log;",
            "events { worker_connections 1024; }",
            "http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; etag off;",
            *(f"{kind}_temp_path {bodies}/{kind};" for kind in kinds),
            "client_max_body_size 0; client_body_buffer_size 1m;",
            f"server {{ listen 127.0.0.1:{port}{' ssl' if tls else ''}; root {folder};",
            f"ssl_certificate {work.certificate}; ssl_certificate_key {work.key}; ssl_buffer_size 16k;" if tls else "",
            "location / { dav_methods PUT DELETE; create_full_put_path on; } } }",
        ]
        configuration = place / "nginx.conf"
        configuration.write_text("\n".join(lines))
        program = nginx_program()
        assert program
        super().__init__(
            "nginx-dav",
            [program, "-c", str(configuration), "-p", str(place), "-e", str(place / "error.log")],
            port,
            log=place / "output.log",
        )


def nginx_program() -> str | None:
    """nginx, if it is installed and has the DAV module."""
    program = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if program:
        built = subprocess.run([program, "-V"], capture_output=True, text=True).stderr
        if "http_dav_module" in built:
            return program
    return None


_BOUNDARY = "------------------------d74496d66958873eXyQm27"
"""As long as the boundaries of curl and browsers: searching for a short one takes longer."""


def form(
    name: str, content_type: str = "application/octet-stream", field: str = "data"
) -> tuple[dict[str, str], bytes, bytes]:
    """The headers of a form with one file, and the bytes before and after the file."""
    before = (
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n'
        f"Content-Type: {content_type}\r\n\r\n"
    )
    headers = {"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"}
    return headers, before.encode(), f"\r\n--{_BOUNDARY}--\r\n".encode()


def form_of(files: Iterable[tuple[str, bytes]], field: str = "data") -> tuple[dict[str, str], bytes]:
    """Headers and the whole body of a form with small files."""
    pieces = []
    headers: dict[str, str] = {}
    for name, content in files:
        headers, before, _ = form(name, field=field)
        pieces += [before, content, b"\r\n"]
    return headers, b"".join(pieces) + f"--{_BOUNDARY}--\r\n".encode()
