from datetime import UTC, datetime

import pytest

from portico.accounts.policy.assertions import check_assertions, parse_assertion
from portico.accounts.policy.document import PolicyMistake
from portico.accounts.policy.policy import Limits, Policy, UserPolicy

from .policies import mounts, policy

NOW = datetime(2026, 11, 19, tzinfo=UTC)

COMPANY = policy(
    {
        "anna": {"/": ("files/", "list download upload overwrite"), "/hr": ("files/hr", "list download")},
        "bo": {"/a/secret": ("files/a", "")},
        "carl": UserPolicy("carl", mounts({"/": ("files/", "list")}), disabled=True),
        "x": {"/": ("files/", "list")},
    },
    {
        "staff": (["anna", "bo"], {"/a": ("files/a", "list download")}),
        "partners": ((), {"/p/in": ("files/p", "list upload")}),
        "x": (["bo"], {"/z": ("files/z", "list")}),
    },
)


def failures(*tests: str, company: Policy = COMPANY) -> list[str]:
    assertions = tuple(parse_assertion(text, number) for number, text in enumerate(tests, 1))
    try:
        check_assertions(assertions, company, "f", NOW)
    except PolicyMistake as error:
        return error.detail.splitlines()
    return []


@pytest.mark.parametrize(
    "test",
    [
        "anna can download /hr/plan.pdf",
        "ANNA can download from /hr",
        "anna cannot upload to /hr",
        "anna can't delete /hr/plan.pdf",
        "anna can overwrite /x",
        "anna can reach /hr",
        "anna cannot share /",
        "staff can list /a",
        "staff cannot upload to /a",
        "bo cannot reach /a/secret",
        "bo cannot reach /b",
        "bo can list /",  # virtual
        "bo can reach /",
        "bo can download /a/file",
        "carl cannot reach /",  # disabled
        "partners can upload to /p/in",  # no members yet
        "partners cannot reach /a",
        "partners can reach /p",
        "@x cannot reach /y",
    ],
)
def test_what_holds(test: str) -> None:
    assert failures(test) == []


@pytest.mark.parametrize(
    ("test", "why"),
    [
        ("anna can upload to /hr", "anna can't upload there: the user's own mount /hr gives only list and download."),
        ("anna cannot upload to /x", "anna can upload /x: the user's own mount / gives list, download, upload and overwrite."),
        ("anna cannot download /a", "anna can download /a: the mount /a of the group 'staff' gives list and download."),
        ("anna cannot overwrite /", "anna can overwrite /: the user's own mount / gives list, download, upload and overwrite."),
        ("bo can reach /a/secret", "bo can't reach /a/secret: the user's own mount /a/secret hides it."),
        ("bo can reach /b", "bo can't reach /b: no mount leads there."),
        ("bo can upload to /", "bo can't reach /: no mount leads there."),
        # Below the path, and in another spelling.
        ("bo cannot reach /", "bo can reach /a: the mount /a of the group 'staff' gives list and download."),
        ("anna cannot reach /HR", "anna can reach /HR: the user's own mount / gives list, download, upload and overwrite."),
        ("carl can list /", "carl is disabled."),
        ("partners cannot reach /p", "A new member can reach /p/in: the mount /p/in of the group 'partners' gives list and upload."),
        # The user and the group of one name.
        ("x cannot list /y", "x can list /y: the user's own mount / gives list."),
        ("x cannot list /z", "bo can list /z: the mount /z of the group 'x' gives list."),
    ],
)  # fmt: skip
def test_what_fails(test: str, why: str) -> None:
    found = failures(test)
    assert f"f:1: The test '{test}' fails. {why}" in found


def test_an_expired_account_can_do_nothing() -> None:
    user = UserPolicy("bo", mounts({"/": ("files/", "list")}), Limits(NOW))
    assert failures("bo can list /", company=policy({"bo": user})) == [
        "f:1: The test 'bo can list /' fails. bo has expired."
    ]
    assert failures("bo cannot list /", company=policy({"bo": user})) == []


def test_each_member_is_tested() -> None:
    assert len(failures("staff cannot list /a")) == 2
    assert len(failures("bo can list /a", "staff cannot list /a", "bo can list /b")) == 3


def test_an_unknown_subject() -> None:
    assert failures("ana can list /") == ["f:1: There is no user or group 'ana'; did you mean 'anna'?"]
    assert failures("@anna can list /") == ["f:1: There is no user or group '@anna'; did you mean 'anna'?"]
