from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.access.authentication.authenticate import (
    ANONYMOUS_USER,
    EXTRA_SPACE,
    MAX_CACHED_SUBJECTS,
    Authenticated,
    Authenticator,
)
from rewound.actors.errors import Unauthorized
from rewound.actors.identity import User
from tests.cases import cases

ALICE = User("alice", "uid-alice", ("devs",))
SIGNED_IN = Authenticated(User("alice", "uid-alice", ("devs", "system:authenticated")))
ADMIN_CERTIFICATE = {
    "subject": ((("organizationName", "system:masters"),), (("commonName", "admin"),)),
    "notAfter": "Jan  1 00:00:00 2050 GMT",
}


def known(authenticator: Authenticator, header: bytes | None, certificate: Any = None) -> Authenticated:
    """The result, which is returned without an awaitable."""
    found = authenticator.authenticate(header, certificate)
    assert isinstance(found, Authenticated)
    return found


@pytest.fixture
def authenticator() -> Authenticator:
    return Authenticator({"alicetoken": ALICE}, anonymous=True)


@pytest.mark.parametrize(
    "header",
    [
        b"Bearer alicetoken",
        b"bearer alicetoken",
        b"BEARER alicetoken",
        b" Bearer alicetoken ",
        b"Bearer alicetoken x",
    ],
)
def test_static_token_authenticates_its_user(authenticator: Authenticator, header: bytes) -> None:
    assert known(authenticator, header, None) == SIGNED_IN


@pytest.mark.parametrize(
    "header",
    [b"Bearer AliceToken", b"Bearer alicetoke", b"Bearer alicetoken,alice", b"bearer x", b"Bearer \xff"],
)
def test_unknown_token_is_refused_even_if_anonymous_is_allowed(
    authenticator: Authenticator, header: bytes
) -> None:
    with pytest.raises(Unauthorized):
        authenticator.authenticate(header, None)


@pytest.mark.parametrize(
    "header",
    [None, b"", b"Bearer", b"Bearer ", b"alicetoken", b"Basic YWRtaW46YWRtaW50b2tlbg==", b"Token alicetoken"],
)
def test_request_without_credentials_is_anonymous(authenticator: Authenticator, header: bytes | None) -> None:
    assert known(authenticator, header, None) == Authenticated(ANONYMOUS_USER)


@pytest.mark.parametrize("header", [b"Bearer  alicetoken", b"Bearer  no-such-token", b"bearer   x"])
def test_extra_space_before_the_token_is_anonymous_with_a_warning(
    authenticator: Authenticator, header: bytes
) -> None:
    assert known(authenticator, header, None) == Authenticated(ANONYMOUS_USER, (EXTRA_SPACE,))


@cases("header", [None, b"Basic eA==", b"Bearer  alicetoken"])
def test_anonymous_request_is_refused_if_anonymous_is_off(header: bytes | None) -> None:
    with pytest.raises(Unauthorized):
        Authenticator({"alicetoken": ALICE}, anonymous=False).authenticate(header, None)


def test_client_certificate_takes_precedence_over_the_header(authenticator: Authenticator) -> None:
    admin = Authenticated(User("admin", groups=("system:masters", "system:authenticated")))
    assert known(authenticator, b"Bearer alicetoken", ADMIN_CERTIFICATE) == admin
    assert known(authenticator, b"Bearer unknown", ADMIN_CERTIFICATE) == admin


def test_more_certificates_than_the_cache_holds_authenticate(authenticator: Authenticator) -> None:
    for turn in range(2 * MAX_CACHED_SUBJECTS + 1):
        certificate = {"subject": ((("commonName", f"user-{turn}"),),)}
        assert known(authenticator, None, certificate).user.name == f"user-{turn}"


def test_certificate_without_common_name_falls_back_to_the_header(authenticator: Authenticator) -> None:
    nameless = {"subject": ((("organizationName", "devs"),),)}
    assert known(authenticator, b"Bearer alicetoken", nameless) == SIGNED_IN
    assert known(authenticator, None, nameless) == Authenticated(ANONYMOUS_USER)


def test_token_of_the_anonymous_user_gets_no_authenticated_group() -> None:
    authenticator = Authenticator({"t": User("system:anonymous")}, anonymous=True)
    assert known(authenticator, b"Bearer t", None).user.groups == ()


class Compared(bytes):
    """Counts how often it is compared with other bytes."""

    count = 0

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return bytes(self) == other

    __hash__ = bytes.__hash__


def test_static_tokens_are_compared_by_hash_and_not_by_prefix(authenticator: Authenticator) -> None:
    """A guess with the right prefix is compared with no token: its timing reveals nothing about the prefix."""
    for guess in (b"Bearer alicetoke", b"Bearer alicetokem", b"Bearer alicetokenx", b"Bearer x"):
        with pytest.raises(Unauthorized):
            authenticator.authenticate(Compared(guess), None)
        assert Compared.count == 0
    assert known(authenticator, Compared(b"Bearer alicetoken")) == SIGNED_IN
    assert Compared.count == 1
