"""OpenStack Swift with its S3 interface as one process: `python node.py FOLDER`.

It prints its port when it serves. The proxy and the account, container and object servers share one event loop; each
ring has one device, in the folder.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import eventlet
from swift.common import utils

utils.monkey_patch()

from eventlet import wsgi  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402
from swift.common.wsgi import SwiftHttpProtocol, loadapp  # noqa: E402

STORAGE = """
[DEFAULT]
swift_dir = {folder}
devices = {folder}/devices
mount_check = false
disable_fallocate = true
log_level = CRITICAL
log_name = swift
[app:main]
use = egg:swift#{kind}
"""

PROXY = """
[DEFAULT]
swift_dir = {folder}
log_level = CRITICAL
log_name = swift
[pipeline:main]
pipeline = catch_errors gatekeeper listing_formats bulk s3api tempauth copy slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
allow_account_management = true
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = {secret} .admin
[filter:s3api]
use = egg:swift#s3api
s3_acl = false
check_bucket_owner = false
location = us-east-1
auth_pipeline_check = true
allow_multipart_uploads = true
""" + "".join(
    f"[filter:{name}]\nuse = egg:swift#{name}\n"
    for name in ("catch_errors", "gatekeeper", "listing_formats", "bulk", "copy", "slo", "dlo")
)


def main(folder: Path, secret: str) -> None:
    (folder / "devices" / "disk").mkdir(parents=True)
    (folder / "swift.conf").write_text(
        "[swift-hash]\nswift_hash_path_suffix = portico\nswift_hash_path_prefix = portico\n"
        "[storage-policy:0]\nname = only\ndefault = yes\n[swift-constraints]\nmax_file_size = 5368709122\n"
    )
    utils.set_swift_dir(str(folder))
    kinds = ("account", "container", "object")
    sockets = {kind: eventlet.listen(("127.0.0.1", 0)) for kind in (*kinds, "proxy")}
    for kind in kinds:
        make_ring(folder, kind, sockets[kind].getsockname()[1])
    for kind in kinds:
        serve(folder, kind, sockets[kind], STORAGE.format(folder=folder, kind=kind))
    last = serve(folder, "proxy", sockets["proxy"], PROXY.format(folder=folder, secret=secret))
    print(sockets["proxy"].getsockname()[1], flush=True)
    eventlet.spawn(end_with, os.getppid(), folder)
    last.wait()


def make_ring(folder: Path, kind: str, port: int) -> None:
    builder = RingBuilder(4, 1, 1)
    device = {"region": 1, "zone": 1, "ip": "127.0.0.1", "port": port, "device": "disk", "weight": 1.0}
    builder.add_dev(device | {"replication_ip": "127.0.0.1", "replication_port": port, "meta": ""})
    builder.rebalance()
    builder.get_ring().save(str(folder / f"{kind}.ring.gz"))


def serve(folder: Path, kind: str, socket: Any, configuration: str) -> Any:
    file = folder / f"{kind}-server.conf"
    file.write_text(configuration)
    app = loadapp(str(file), global_conf={"log_name": kind})
    return eventlet.spawn(
        wsgi.server,
        socket,
        app,
        utils.NullLogger(),
        protocol=SwiftHttpProtocol,
        capitalize_response_headers=False,
        url_length_limit=16_384,
    )


def end_with(parent: int, folder: Path) -> None:
    while os.getppid() == parent:
        eventlet.sleep(1)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
