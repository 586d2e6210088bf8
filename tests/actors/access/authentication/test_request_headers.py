"""The headers of an authenticating proxy name the user, and are removed before anything else reads them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rewound.actors.access.authentication.authenticate import (
    Authenticated,
    Authenticator,
    RequestHeaders,
    extra_key,
)
from rewound.actors.errors import Unauthorized
from rewound.actors.identity import User
from tests.cases import cases

HEADERS = RequestHeaders(
    (b"x-remote-user",), (b"x-remote-group",), (b"x-remote-extra-",), frozenset({"front"})
)
FRONT = {"subject": ((("commonName", "front"),),)}


@dataclass
class Fields:
    headers: dict[bytes, bytes]
    repeated: dict[bytes, list[bytes]] | None = None


def test_used_headers_are_removed_and_shared_ones_stay_as_they_are() -> None:
    """Requests with the same head share their repeated headers: a change would reach the next request."""
    repeated = {b"x-remote-group": [b"a", b"b"], b"x-kept": [b"1", b"2"]}
    fields = Fields(
        {
            b"x-remote-user": b"alice",
            b"x-remote-group": b"a, b",
            b"x-remote-extra-scope": b"c",
            b"x-kept": b"1, 2",
            b"x-remote": b"d",
        },
        repeated,
    )
    user = HEADERS.take_user(FRONT, fields)
    assert user == User("alice", groups=("a", "b"), extra=(("scope", ("c",)),))
    assert fields == Fields({b"x-kept": b"1, 2", b"x-remote": b"d"}, {b"x-kept": [b"1", b"2"]})
    assert repeated == {b"x-remote-group": [b"a", b"b"], b"x-kept": [b"1", b"2"]}


@cases("name", ["back", "", "Front"])
def test_headers_of_other_names_are_not_read(name: str) -> None:
    fields = Fields({b"x-remote-user": b"alice"})
    assert HEADERS.take_user({"subject": ((("commonName", name),),)}, fields) is None
    assert fields == Fields({b"x-remote-user": b"alice"})


@cases(
    "fields",
    [
        Fields({b"x-remote-user": b"alice, bob"}, {b"x-remote-user": [b"alice", b"bob"]}),
        Fields({b"x-remote-user": b"alice, alice"}, {b"x-remote-user": [b"alice", b"alice"]}),
        Fields({b"x-remote-user": b", bob"}, {b"x-remote-user": [b"", b"bob"]}),
        Fields({b"x-remote-user": b"\xff"}),
        Fields({b"x-remote-user": b"alice", b"x-remote-group": b"\xff"}),
        Fields({b"x-remote-user": b"alice", b"x-remote-extra-a": b"\xff"}),
    ],
)
def test_ambiguous_headers_are_refused(fields: Fields) -> None:
    with pytest.raises(Unauthorized):
        HEADERS.take_user(FRONT, fields)


@cases(
    ("name", "key"),
    [
        (b"acme.com%2fproject", "acme.com/project"),
        (b"%c3%a9", "é"),
        (b"a%", "a%"),
        (b"a%2", "a%2"),
        (b"a%2g%2f", "a%2g%2f"),
        (b"%ff", "%ff"),
        (b"a+b", "a+b"),
        (b"", ""),
    ],
)
def test_extra_key_is_percent_decoded_unless_an_escape_is_bad(name: bytes, key: str) -> None:
    assert extra_key(name) == key


def test_without_allowed_names_every_proxy_certificate_counts() -> None:
    open_to_all = RequestHeaders((b"x-remote-user",))
    for certificate in (FRONT, {"subject": ()}):
        assert open_to_all.take_user(certificate, Fields({b"x-remote-user": b"alice"})) == User("alice")


def test_proxy_certificate_counts_for_nothing_without_proxy_settings() -> None:
    authenticator = Authenticator({}, anonymous=True)
    with pytest.raises(Unauthorized):
        authenticator.authenticate_proxied(None, None, FRONT, Fields({b"x-remote-user": b"alice"}))


def test_subjects_of_proxies_and_clients_are_not_mixed() -> None:
    """Both CAs may issue certificates with the same subject: users of one are not cached for the other."""
    authenticator = Authenticator({}, anonymous=True, request_headers=HEADERS)
    for _ in range(2):
        direct = authenticator.authenticate(None, FRONT)
        assert isinstance(direct, Authenticated)
        assert direct.user.name == "front"
        with pytest.raises(Unauthorized):
            authenticator.authenticate_proxied(None, None, FRONT, Fields({}))
        named = authenticator.authenticate_proxied(None, None, FRONT, Fields({b"x-remote-user": b"alice"}))
        assert isinstance(named, Authenticated)
        assert named.user == User("alice", groups=("system:authenticated",))
