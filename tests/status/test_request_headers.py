"""Who sends a request that the API server passes on, by its headers."""

import json

import pytest

from scheduler.status.request_headers import RequestHeaders

SAID = {
    "client-ca-file": "of no interest here",
    "requestheader-client-ca-file": "-----BEGIN CERTIFICATE-----",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}
HEADERS = RequestHeaders.read(SAID)


def test_user_groups_uid_and_extra_are_read():
    """Header names differ in case by the proxies between, and a key of `extra` may be encoded."""
    found = HEADERS.subject(
        [
            ("x-remote-user", "jane"),
            ("X-Remote-Group", "research"),
            ("X-Remote-Group", "system:authenticated"),
            ("X-Remote-Uid", "42"),
            ("X-Remote-Extra-Example.com%2fscopes", "a"),
            ("X-Remote-Extra-Example.com%2fscopes", "b"),
            ("Accept", "application/json"),
        ]
    )

    assert found is not None
    assert (found.user, found.uid) == ("jane", "42")
    assert found.groups == ("research", "system:authenticated")
    assert found.extra == (("example.com/scopes", ("a", "b")),)


@pytest.mark.parametrize("headers", [[], [("X-Remote-User", "")], [("X-Remote-Group", "system:masters")]])
def test_without_a_user_there_is_no_subject(headers):
    """A group alone is no user."""
    assert HEADERS.subject(headers) is None


def test_a_cluster_may_know_no_uid_header():
    """API servers before 1.32 publish none."""
    said = {name: text for name, text in SAID.items() if "uid" not in name}
    found = RequestHeaders.read(said).subject([("X-Remote-User", "jane"), ("X-Remote-Uid", "42")])

    assert found is not None
    assert found.uid == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requestheader-client-ca-file", ""),
        ("requestheader-username-headers", "[]"),
        ("requestheader-username-headers", "X-Remote-User"),
        ("requestheader-allowed-names", json.dumps({"a": 1})),
        ("requestheader-group-headers", "[1]"),
    ],
)
def test_what_is_missing_or_wrong_is_named(name, text):
    """An API server without the flags passes no request on, and a value that is not a list is none of its own."""
    with pytest.raises(ValueError, match=name):
        RequestHeaders.read({**SAID, name: text})
