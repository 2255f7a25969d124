import pytest

from portico.api.problems import PROBLEM_TYPES
from portico.client import ClientError, Internal, NotAGateway, NotFound, TooManyRequests, Unavailable, errors
from portico.client.http.problems import BY_CODE, BY_STATUS, problem


def test_every_code_of_the_gateway_has_a_class() -> None:
    assert PROBLEM_TYPES.keys() <= BY_CODE.keys()
    for code in PROBLEM_TYPES:
        assert BY_CODE[code].code == code
    assert {kind.status for kind in PROBLEM_TYPES.values()} <= BY_STATUS.keys()


def test_every_class_can_be_imported_from_the_client() -> None:
    import portico.client

    family = {
        name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, ClientError)
    }
    assert family <= set(portico.client.__all__)
    assert all(hasattr(portico.client, name) for name in portico.client.__all__)


def test_what_a_problem_says() -> None:
    body = {"code": "not-found", "detail": "Gone.", "requestId": "abc", "stored": ["a"], "failed": ["b", 1]}
    error = problem(404, {"retry-after": "7"}, body)
    assert isinstance(error, NotFound)
    assert (error.detail, error.request_id, error.retry_after) == ("Gone.", "abc", 7)
    assert (error.stored, error.failed) == (("a",), ("b",))


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (404, {"code": "newer-than-us"}, NotFound, "newer-than-us"),
        (429, {"error": "slow_down", "error_description": "Wait."}, TooManyRequests, "slow_down"),
        (502, None, Unavailable, "unavailable"),
        (404, [], NotFound, "not-found"),
        (599, None, Internal, "internal"),
        (418, {"code": 5}, NotAGateway, "not-a-gateway"),
        (301, None, NotAGateway, "not-a-gateway"),
    ],
)
def test_what_is_not_known_goes_by_its_status(status: int, body: object, kind: type[ClientError], code: str) -> None:
    error = problem(status, {"x-request-id": "abc", "location": "https://there"}, body)
    assert (type(error), error.code, error.status, error.request_id) == (kind, code, status, "abc")
    assert error.detail
