import pytest

from .conftest import OpenGateway
from .gateways import Answer, Gateway, address

PORTAL = "https://portal.example.org"
OTHERS = {"security.cors-origins": f"{PORTAL}, http://localhost:3000"}


def permission(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers if name.startswith("access-control-")}


async def ask(gateway: Gateway, origin: str, method: str = "GET", target: str = address("")) -> Answer:
    headers = [*(await gateway.sign_in()).items(), ("Origin", origin)]
    return await gateway.raw(method, target.encode(), headers)


@pytest.mark.parametrize("origin", [PORTAL, "http://localhost:3000"])
async def test_a_page_of_a_named_origin_may_read_answers(open_gateway: OpenGateway, origin: str) -> None:
    gateway = await open_gateway(**OTHERS)
    for answer in (await ask(gateway, origin), await ask(gateway, origin, target=address("none"))):
        assert answer.header("Access-Control-Allow-Origin") == origin
        assert answer.header("Vary") == "Origin"
        exposed = answer.header("Access-Control-Expose-Headers").split(", ")
        assert {"X-Request-Id", "ETag", "Content-Range", "Content-Disposition", "Retry-After"} <= set(exposed)
        assert {"Location", "Content-Location", "Preference-Applied", "Repr-Digest"} <= set(exposed)
        assert "access-control-allow-credentials" not in permission(answer)


@pytest.mark.parametrize(
    "origin",
    [
        "https://portal.example.org.evil.test",
        "http://portal.example.org",
        "https://portal.example.org:8443",
        "https://PORTAL.example.org",
        "https://sub.portal.example.org",
        "null",
        "*",
        "",
    ],
)
async def test_no_other_origin_may(open_gateway: OpenGateway, origin: str) -> None:
    gateway = await open_gateway(**OTHERS)
    answer = await ask(gateway, origin)
    assert (answer.status, permission(answer), answer.header("Vary")) == (200, {}, "Origin")
    preflight = await gateway.raw(
        "OPTIONS", address("").encode(), [("Origin", origin), ("Access-Control-Request-Method", "POST")]
    )
    assert (preflight.status, permission(preflight)) == (405, {})


async def test_two_origins_are_none(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**OTHERS)
    answer = await gateway.raw("GET", b"/backend/session", [("Origin", PORTAL), ("Origin", PORTAL)])
    assert permission(answer) == {}


async def test_a_browser_asks_before_it_sends(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**OTHERS)
    asking = [("Origin", PORTAL), ("Access-Control-Request-Method", "DELETE")]
    for target in (address("a"), "/backend/login", "/backend/session"):
        answer = await gateway.raw("OPTIONS", target.encode(), asking)
        assert answer.status == 204
        assert answer.header("Access-Control-Allow-Origin") == PORTAL
        assert answer.header("Access-Control-Allow-Methods") == "GET, HEAD, POST, PUT, PATCH, DELETE"
        assert {"Authorization", "Content-Type", "Content-Digest", "Prefer", "Range", "X-Modified"} <= set(
            answer.header("Access-Control-Allow-Headers").split(", ")
        )
        assert answer.header("Vary") == "Origin"
        assert answer.body == b""
    assert (await gateway.raw("OPTIONS", address("").encode(), [("Origin", PORTAL)])).status == 405


async def test_the_page_itself_is_not_for_others(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**OTHERS)
    for target in (b"/", b"/config.js", b"/healthz"):
        assert permission(await gateway.raw("GET", target, [("Origin", PORTAL)])) == {}


async def test_addresses_are_looked_at_first(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**OTHERS, **{"security.allowed-addresses": "192.0.2.7"})
    asking = [("Origin", PORTAL), ("Access-Control-Request-Method", "GET")]
    answer = await gateway.raw("OPTIONS", address("").encode(), asking, peer="192.0.2.8")
    assert answer.status == 403


async def test_without_the_setting_there_is_nothing_of_it(gateway: Gateway) -> None:
    answer = await ask(gateway, PORTAL)
    assert permission(answer) == {}
    assert "vary" not in dict(answer.headers)
    preflight = await gateway.raw(
        "OPTIONS", address("").encode(), [("Origin", PORTAL), ("Access-Control-Request-Method", "POST")]
    )
    assert (preflight.status, permission(preflight)) == (405, {})
