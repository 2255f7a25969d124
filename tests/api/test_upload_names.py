"""File names in a form."""

import pytest

from .conftest import SHARES_GATEWAY
from .gateways import BOUNDARY, Gateway, form, named, part
from .uploads import stored

pytestmark = SHARES_GATEWAY


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('filename="a.txt"', "a.txt"),
        ("filename=a.txt", "a.txt"),
        ('filename="a b;c=d.txt"', "a b;c=d.txt"),
        ('filename="Grüße 报告 😀.txt"', "Grüße 报告 😀.txt"),
        ('filename="say %22hi%22.txt"', 'say "hi".txt'),
        ('filename="say \\"hi\\".txt"', 'say "hi".txt'),
        ('filename="100%.txt"', "100%.txt"),
        ('filename="%41.txt"', "%41.txt"),
        ("filename*=UTF-8''Gr%C3%BC%C3%9Fe.txt", "Grüße.txt"),
        ("filename*=utf-8'en'a%20b.txt", "a b.txt"),
        ("filename=\"old.txt\"; filename*=UTF-8''new.txt", "new.txt"),
        ('FileName="a.txt"', "a.txt"),
        ('filename="..."', "..."),
        ('filename="．．"', "．．"),
        ('filename=".hidden"', ".hidden"),
        ('filename="C:"', "C:"),
        ('filename="<img onerror=x>"', "<img onerror=x>"),
    ],
)
async def test_a_file_name_is_understood(gateway: Gateway, disposition: str, name: str) -> None:
    response = await gateway.send_form(form(part(b"x", f'form-data; name="data"; {disposition}')))
    assert response.status_code == 204, response.text
    assert stored(gateway) == {name: b"x"}


@pytest.mark.parametrize(
    "disposition",
    [
        "",
        'filename=""',
        "filename=",
        "filename*=UTF-8''",
        'filename="."',
        'filename=".."',
        'filename="../a"',
        'filename="a/b"',
        'filename="/a"',
        'filename="a\\b"',
        'filename="C:\\fakepath\\a"',
        'filename="a%0Ab"',
        'filename="a%0Db"',
        'filename="a\x01b"',
        'filename="a\tb"',
        'filename="a\x7fb"',
        "filename*=UTF-8''a%2Fb",
        "filename*=UTF-8''a%5Cb",
        "filename*=UTF-8''%2e%2e",
        "filename*=UTF-8''a%00b",
        "filename*=UTF-8''a%ff",
        "filename*=UTF-8''a%zz",
        "filename*=ISO-8859-1''a",
        "filename*=a",
        'filename="a"; filename="b"',
        'filename=".portico~x"',
        f'filename="{"n" * 256}"',
        'filename="open',
    ],
)
async def test_a_file_name_that_is_none_is_refused(gateway: Gateway, disposition: str) -> None:
    joint = "; " if disposition else ""
    response = await gateway.send_form(form(part(b"x", f'form-data; name="data"{joint}{disposition}')))
    assert response.status_code == 400, response.text
    assert response.json()["code"] in ("invalid-request", "invalid-path")
    assert stored(gateway) == {}
    assert gateway.left_over == []


async def test_a_name_that_is_not_utf8_is_refused(gateway: Gateway) -> None:
    body = form(named("a.txt")).replace(b"a.txt", b"\xff.txt")
    assert (await gateway.send_form(body)).status_code == 400
    assert stored(gateway) == {}


@pytest.mark.parametrize(
    "disposition",
    [
        'form-data; name="file"; filename="a.txt"',
        'form-data; name="Data"; filename="a.txt"',
        'form-data; name=""; filename="a.txt"',
        'form-data; filename="a.txt"',
        'form-data; name="data[]"; filename="a.txt"',
        'form-data; name="comment"',
        'attachment; name="data"; filename="a.txt"',
        'form-data; name="data"; name="data"; filename="a.txt"',
    ],
)
async def test_another_part_is_refused(gateway: Gateway, disposition: str) -> None:
    response = await gateway.send_form(form(named("first.txt"), part(b"x", disposition)))
    assert (response.status_code, response.json()["code"]) == (400, "invalid-request")
    assert response.json()["stored"] == ["first.txt"]
    assert stored(gateway) == {"first.txt": b"content"}


async def test_another_part_explains_what_is_expected(gateway: Gateway) -> None:
    response = await gateway.send_form(form(part(b"x", 'form-data; name="comment"')))
    assert "'data'" in response.json()["detail"]


@pytest.mark.parametrize("body", [form(), b"", b"\r\n", f"--{BOUNDARY}\r\n".encode()])
async def test_no_part_at_all_is_refused(gateway: Gateway, body: bytes) -> None:
    response = await gateway.send_form(body)
    assert (response.status_code, response.json()["code"]) == (400, "invalid-request")


async def test_the_same_name_twice_is_refused(gateway: Gateway) -> None:
    response = await gateway.send_form(form(named("a.txt", b"one"), named("a.txt", b"two")))
    assert (response.status_code, response.json()["code"]) == (400, "invalid-request")
    assert (response.json()["stored"], response.json()["failed"]) == (["a.txt"], ["a.txt"])
    assert stored(gateway) == {"a.txt": b"one"}
