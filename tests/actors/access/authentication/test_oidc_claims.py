"""Which user an ID token authenticates, by its claims."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.access.authentication.oidc_claims import ClaimRules, username_prefix
from rewound.actors.access.token_json import BadClaims
from rewound.actors.identity import User
from rewound.actors.profile import Rules, parse_assignments
from rewound.gateway.settings.access import OidcSettings
from tests.cases import cases

ISSUER = "https://accounts.example.com"
CLAIMS = {
    "sub": "4711",
    "email": "jane@example.com",
    "name": "Doe, Jane",
    "groups": ["a", "b, c"],
    "nothing": None,
    "tier": "gold",
}


def user(changed: dict[str, Any], **rules: Any) -> User:
    return ClaimRules(ISSUER, ("client",), **rules).user({**CLAIMS, **changed})


@cases(
    ("given", "claim", "prefix"),
    [
        ("", "sub", f"{ISSUER}#"),
        ("", "name", f"{ISSUER}#"),
        ("", "email", ""),
        ("oidc:", "sub", "oidc:"),
        ("oidc:", "email", "oidc:"),
        ("-", "sub", ""),
        ("-", "email", ""),
        ("--", "sub", "--"),
    ],
)
def test_prefix_of_user_names(given: str, claim: str, prefix: str) -> None:
    assert username_prefix(given, claim, ISSUER) == prefix


@cases(
    ("rules", "expected"),
    [
        ({}, User("4711")),
        ({"username_claim": "name"}, User("Doe, Jane")),
        ({"username_prefix": f"{ISSUER}#"}, User(f"{ISSUER}#4711")),
        ({"groups_claim": "groups"}, User("4711", groups=("a", "b, c"))),
        ({"groups_claim": "groups", "groups_prefix": "oidc:"}, User("4711", groups=("oidc:a", "oidc:b, c"))),
        ({"groups_claim": "roles", "groups_prefix": "oidc:"}, User("4711")),
        ({"groups_claim": "nothing", "groups_prefix": "oidc:"}, User("4711")),
        ({"required": (("tier", "gold"), ("sub", "4711"))}, User("4711")),
    ],
)
def test_claims_name_the_user(rules: dict[str, Any], expected: User) -> None:
    assert user({}, **rules) == expected


@cases("verified", [False, None, "true", "false", 1])
def test_email_that_is_not_verified_is_refused(verified: Any) -> None:
    assert user({}, username_claim="email") == User("jane@example.com")
    assert user({"email_verified": True}, username_claim="email") == User("jane@example.com")
    assert user({"email_verified": verified}) == User("4711"), "it matters for the claim email alone"
    with pytest.raises(BadClaims, match="email_verified"):
        user({"email_verified": verified}, username_claim="email")


@cases("value", ["a", "", 1, True, {"a": "b"}, ["a", 1], [["a"]], [None]])
def test_groups_that_are_no_array_of_strings_are_refused(value: Any) -> None:
    with pytest.raises(BadClaims, match="groups"):
        user({"groups": value}, groups_claim="groups")
    assert user({"groups": value}) == User("4711"), "groups are not read without the flag"


@cases("value", [None, "", 4711, ["4711"], True])
def test_user_name_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(BadClaims, match="sub"):
        user({"sub": value})


@cases("required", [("tier", "silver"), ("tier", "Gold"), ("missing", ""), ("groups", "a")])
def test_required_claim_must_have_the_value(required: tuple[str, str]) -> None:
    with pytest.raises(BadClaims, match=required[0]):
        user({}, required=(("sub", "4711"), required))


@cases(
    ("changed", "good"),
    [
        ({}, True),
        ({"nbf": 1060}, True),
        ({"iss": "https://other.example"}, False),
        ({"iss": None}, False),
        ({"aud": "other"}, False),
        ({"aud": ["other"]}, False),
        ({"aud": None}, False),
        ({"exp": 1000}, False),
        ({"exp": None}, False),
        ({"exp": "2000"}, False),
        ({"exp": True}, False),
        ({"nbf": 1061}, False),
        ({"nbf": "1"}, False),
    ],
)
def test_token_must_be_by_the_issuer_for_the_client_and_valid_now(
    changed: dict[str, Any], good: bool
) -> None:
    claims = {"iss": ISSUER, "aud": ["x", "client"], "exp": 1001, **changed}
    claims = {name: value for name, value in claims.items() if value is not None}
    rules = ClaimRules(ISSUER, ("client",))
    if good:
        assert rules.expiry(claims, 1000.0) == 1001
    else:
        with pytest.raises(BadClaims):
            rules.expiry(claims, 1000.0)


def test_google_may_leave_the_scheme_out() -> None:
    google, other = (ClaimRules(issuer, ("client",)) for issuer in ("https://accounts.google.com", ISSUER))
    for issuer in ("https://accounts.google.com", "accounts.google.com"):
        claims = {"iss": issuer, "aud": "client", "exp": 1001}
        assert google.expiry(claims, 1000.0) == 1001
        with pytest.raises(BadClaims):
            other.expiry(claims, 1000.0)
    assert not google.is_issuer("http://accounts.google.com") and not other.is_issuer("accounts.example.com")


def test_lone_string_is_one_group_where_that_is_the_rule() -> None:
    assert user({"groups": "devs"}, groups_claim="groups", lone_group=True).groups == ("devs",)
    settings = OidcSettings(oidc_issuer_url=ISSUER, oidc_client_id="client")
    for word in ("list", "list-or-string"):
        rules = Rules(**parse_assignments(f"oidc-groups={word}"))
        assert settings.claim_rules(rules).lone_group is (word != "list")
