from io import BytesIO

import pytest
from PIL import Image

from portico.operations.thumbnails.process import ThumbnailProcess

from ..operations.test_thumbnails import encoded, pdf
from .conftest import OpenGateway
from .gateways import Gateway

PHOTO = encoded(Image.new("RGB", (640, 480), "red"), "JPEG")
ASKED = {"action": "THUMBNAIL"}


async def test_a_thumbnail_is_made_once_and_again_for_another_version(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.put("ä <b>.jpg", PHOTO)
    response = await gateway.call("GET", "ä <b>.jpg", params=ASKED)
    assert response.status_code == 200, response.text
    with Image.open(BytesIO(response.content)) as image:
        assert (image.format, image.size) == ("WEBP", (256, 192))
    assert response.headers["Content-Type"] == "image/webp"
    assert response.headers["X-Page-Count"] == "1"
    assert response.headers["Cache-Control"] == "private, no-cache"
    assert "sandbox" in response.headers["Content-Security-Policy"]
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    etag = response.headers["ETag"]
    again = await gateway.call("GET", "ä <b>.jpg", params=ASKED, headers={"If-None-Match": etag})
    assert (again.status_code, again.headers["ETag"]) == (304, etag)
    with monkeypatch.context() as patched:
        patched.setattr(ThumbnailProcess, "make", None)
        kept = await gateway.call("GET", "ä <b>.jpg", params=ASKED)
    assert kept.content == response.content
    gateway.put("ä <b>.jpg", encoded(Image.new("RGB", (64, 64)), "PNG"))
    other = await gateway.call("GET", "ä <b>.jpg", params=ASKED, headers={"If-None-Match": etag})
    assert other.status_code == 200, "what counts is the content, not the name"
    with Image.open(BytesIO(other.content)) as image:
        assert image.size == (64, 64)
    assert sum(path.is_file() for path in gateway.settings.thumbnails_folder.rglob("*")) == 2
    assert gateway.left_over == []


async def test_pages_of_a_document(gateway: Gateway) -> None:
    gateway.put("a.pdf", pdf(7))
    query = {**ASKED, "size": "1600"}
    for page in ("1", "4", "7"):
        response = await gateway.call("GET", "a.pdf", params={**query, "page": page})
        assert (response.status_code, response.headers["X-Page-Count"]) == (200, "7")
    beyond = await gateway.call("GET", "a.pdf", params={**query, "page": "8"})
    assert (beyond.status_code, beyond.json()["code"]) == (404, "no-thumbnail")


async def test_what_has_no_thumbnail(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.put("text.txt", b"text")
    gateway.put("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>")
    gateway.put("broken.png", b"<script>alert(1)</script>")
    gateway.put("one.jpg", PHOTO)
    for name, more in {"text.txt": {}, "drawing.svg": {}, "broken.png": {}, "one.jpg": {"page": "2"}}.items():
        response = await gateway.call("GET", name, params={**ASKED, **more})
        assert (response.status_code, response.json()["code"]) == (404, "no-thumbnail"), name
    with monkeypatch.context() as patched:
        patched.setattr(ThumbnailProcess, "make", None)
        response = await gateway.call("GET", "broken.png", params=ASKED)
    assert response.json()["code"] == "no-thumbnail", "it is not tried again"
    large = gateway.put("large.jpg", PHOTO)
    with large.open("r+b") as file:
        file.truncate(33 * 2**20)
    response = await gateway.call("GET", "large.jpg", params=ASKED)
    assert "too large" in response.json()["detail"]
    for path, code in (("", "is-a-folder"), ("missing.jpg", "not-found")):
        response = await gateway.call("GET", path, params=ASKED)
        assert response.json()["code"] == code
    for query in ({"size": "255"}, {"size": "x"}, {"page": "0"}):
        response = await gateway.call("GET", "one.jpg", params={**ASKED, **query})
        assert response.json()["code"] == "invalid-request", query


async def test_it_needs_the_right_to_download_and_no_ticket_opens_it(gateway: Gateway) -> None:
    gateway.put("one.jpg", PHOTO)
    for user, status in (("reader", 200), ("fetcher", 200), ("watcher", 403), ("dropper", 403)):
        assert (await gateway.call("GET", "one.jpg", params=ASKED, user=user)).status_code == status, user
    ticket = (await gateway.call("POST", "one.jpg", params={"action": "TICKET"})).json()["ticket"]
    response = await gateway.client.get("/backend/1.0.0/filesystem/one.jpg", params={**ASKED, "ticket": ticket})
    assert response.status_code == 400
    headers = {"Sec-Fetch-Dest": "script"}
    assert (await gateway.call("GET", "one.jpg", params=ASKED, headers=headers)).status_code == 403


async def test_the_page_knows_the_types(gateway: Gateway) -> None:
    types = '["application/pdf", "image/gif", "image/jpeg", "image/png", "image/webp"]'
    assert f"thumbnailTypes = {types};" in (await gateway.client.get("/config.js")).text


@pytest.mark.parametrize("size", ["0", "1GB"])
async def test_a_gateway_without_them(open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    """They are turned off, or the extra is missing."""
    if size != "0":
        monkeypatch.setattr(ThumbnailProcess, "is_installed", lambda _: False)
    gateway = await open_gateway(**{"thumbnails.cache-size": size})
    gateway.put("one.jpg", PHOTO)
    response = await gateway.call("GET", "one.jpg", params=ASKED)
    assert (response.status_code, response.json()["code"]) == (404, "no-thumbnail")
    assert "thumbnailTypes = [];" in (await gateway.client.get("/config.js")).text
