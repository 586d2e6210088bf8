from __future__ import annotations

from typing import Any

import pytest

from actors.access.anonymous import NOBODY
from actors.access.authenticate import EXTRA_SPACE, SUBJECTS_KEPT, Authenticated, Authenticator
from actors.errors import Unauthorized
from actors.identity import User

ALICE = User("alice", "uid-alice", ("devs",))
SIGNED_IN = Authenticated(User("alice", "uid-alice", ("devs", "system:authenticated")))
ADMIN_CERTIFICATE = {
    "subject": ((("organizationName", "system:masters"),), (("commonName", "admin"),)),
    "notAfter": "Jan  1 00:00:00 2050 GMT",
}


def known(authenticator: Authenticator, header: bytes | None, certificate: Any = None) -> Authenticated:
    """What is known is returned at once, not awaited."""
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
def test_a_known_token_is_its_user(authenticator: Authenticator, header: bytes) -> None:
    assert known(authenticator, header, None) == SIGNED_IN


@pytest.mark.parametrize(
    "header",
    [b"Bearer AliceToken", b"Bearer alicetoke", b"Bearer alicetoken,alice", b"bearer x", b"Bearer \xff"],
)
def test_an_unknown_token_is_refused_although_anonymous_is_allowed(
    authenticator: Authenticator, header: bytes
) -> None:
    with pytest.raises(Unauthorized):
        authenticator.authenticate(header, None)


@pytest.mark.parametrize(
    "header",
    [None, b"", b"Bearer", b"Bearer ", b"alicetoken", b"Basic YWRtaW46YWRtaW50b2tlbg==", b"Token alicetoken"],
)
def test_no_credentials_are_nobody(authenticator: Authenticator, header: bytes | None) -> None:
    assert known(authenticator, header, None) == Authenticated(NOBODY)


@pytest.mark.parametrize("header", [b"Bearer  alicetoken", b"Bearer  no-such-token", b"bearer   x"])
def test_two_spaces_before_the_token_are_nobody_with_a_warning(
    authenticator: Authenticator, header: bytes
) -> None:
    assert known(authenticator, header, None) == Authenticated(NOBODY, (EXTRA_SPACE,))


@pytest.mark.parametrize("header", [None, b"Basic eA==", b"Bearer  alicetoken"])
def test_nobody_is_refused_where_anonymous_is_off(header: bytes | None) -> None:
    with pytest.raises(Unauthorized):
        Authenticator({"alicetoken": ALICE}, anonymous=False).authenticate(header, None)


def test_a_certificate_stands_before_the_header(authenticator: Authenticator) -> None:
    admin = Authenticated(User("admin", groups=("system:masters", "system:authenticated")))
    assert known(authenticator, b"Bearer alicetoken", ADMIN_CERTIFICATE) == admin
    assert known(authenticator, b"Bearer unknown", ADMIN_CERTIFICATE) == admin


def test_more_certificates_than_are_kept_do_no_harm(authenticator: Authenticator) -> None:
    for turn in range(2 * SUBJECTS_KEPT + 1):
        certificate = {"subject": ((("commonName", f"user-{turn}"),),)}
        assert known(authenticator, None, certificate).user.name == f"user-{turn}"


def test_a_certificate_that_names_nobody_leaves_it_to_the_header(authenticator: Authenticator) -> None:
    nameless = {"subject": ((("organizationName", "devs"),),)}
    assert known(authenticator, b"Bearer alicetoken", nameless) == SIGNED_IN
    assert known(authenticator, None, nameless) == Authenticated(NOBODY)


def test_nobody_does_not_become_somebody_by_a_token_of_that_name() -> None:
    authenticator = Authenticator({"t": User("system:anonymous")}, anonymous=True)
    assert known(authenticator, b"Bearer t", None).user.groups == ()
