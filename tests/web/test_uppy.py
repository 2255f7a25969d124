"""Uppy, unchanged, on a page of another origin: it uploads to the gateway with tus."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from portico.api.tus import UPLOADS

from ..gateways import Gateway
from ..servers.npm import installed

PAGE = """<!doctype html>
<meta charset="utf-8">
<title>Uppy</title>
<script type="module">
  import { Uppy, Tus } from "./uppy.min.mjs";
  window.upload = async (endpoint, token, size) => {
    const uppy = new Uppy().use(Tus, { endpoint, headers: { Authorization: `Bearer ${token}` }, chunkSize: 1 << 20 });
    const content = new Uint8Array(size).map((_, at) => at % 251);
    uppy.addFile({ name: "from uppy.bin", type: "application/x-test", data: new Blob([content]) });
    const { successful, failed } = await uppy.upload();
    return [successful.length, failed.length];
  };
  document.title = "ready";
</script>
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def page_of_another_origin(tmp_path: Path) -> Iterator[str]:
    dist = installed("tus", Path(__file__).parents[1] / "tus") / "node_modules/uppy/dist"
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "uppy.min.mjs").symlink_to(dist / "uppy.min.mjs")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_uppy_uploads_a_file(browser: Browser, page_of_another_origin: str, tmp_path: Path) -> None:
    settings = {"PORTICO_SECURITY_CORS_ORIGINS": page_of_another_origin}
    gateway = Gateway(tmp_path / "gateway" / "home", settings=settings)
    gateway.home.parent.mkdir()
    gateway.start()
    page = browser.new_page()
    try:
        page.goto(f"{page_of_another_origin}/index.html")
        page.wait_for_function("document.title === 'ready'")
        size = 3 * 2**20 + 5
        token = gateway.login()["access_token"]
        assert page.evaluate(
            "([endpoint, token, size]) => window.upload(endpoint, token, size)", [gateway.url + UPLOADS, token, size]
        ) == [1, 0]
        assert (gateway.files / "web" / "from uppy.bin").read_bytes() == bytes(at % 251 for at in range(size))
        assert gateway.staged == []
    finally:
        page.close()
        gateway.kill()
