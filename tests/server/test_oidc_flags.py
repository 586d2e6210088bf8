"""The flags of OpenID Connect: what they mean, and which are refused at the start."""

from __future__ import annotations

import pytest

from rewound.actors.access.authentication.oidc_claims import ClaimRules
from rewound.actors.profile import DOCUMENTED
from rewound.gateway.settings.access import OidcSettings
from rewound.gateway.settings.checks import SettingsError
from rewound.server.flags.parser import parse_flags
from tests.cases import cases

ISSUER = "https://accounts.example.com/realm"
BOTH = [f"--oidc-issuer-url={ISSUER}", "--oidc-client-id=rewound"]


def oidc(*flags: str) -> OidcSettings:
    return parse_flags(list(flags))[0].oidc


def test_flags_become_rules() -> None:
    assert oidc(*BOTH).claim_rules(DOCUMENTED) == ClaimRules(ISSUER, ("rewound",), "sub", f"{ISSUER}#")
    assert oidc(*BOTH).algorithms == ["RS256"]
    settings = oidc(
        *BOTH,
        "--oidc-username-claim=email",
        "--oidc-username-prefix=oidc:",
        "--oidc-groups-claim=roles",
        "--oidc-groups-prefix=oidc-group:",
        "--oidc-required-claim=tier=gold,silver",
        "--oidc-required-claim=hd=a=b",
        "--oidc-signing-algs=RS256,ES256",
        "--oidc-signing-algs=PS512",
    )
    assert settings.claim_rules(DOCUMENTED) == ClaimRules(
        ISSUER,
        ("rewound",),
        "email",
        "oidc:",
        "roles",
        "oidc-group:",
        (("tier", "gold,silver"), ("hd", "a=b")),
    )
    assert settings.algorithms == ["RS256", "ES256", "PS512"]


@cases(
    ("flags", "flag", "said"),
    [
        (["--oidc-issuer-url=" + ISSUER], "--oidc-issuer-url", "needs --oidc-client-id too"),
        (["--oidc-client-id=a"], "--oidc-client-id", "needs --oidc-issuer-url too"),
        (["--oidc-groups-claim=groups"], "--oidc-groups-claim", "needs --oidc-issuer-url too"),
        (["--oidc-signing-algs=ES256"], "--oidc-signing-algs", "needs --oidc-issuer-url too"),
        (
            ["--oidc-client-id=a", "--oidc-issuer-url=http://a.example.com"],
            "--oidc-issuer-url",
            "is not the URL of an issuer",
        ),
        (
            ["--oidc-client-id=a", "--oidc-issuer-url=a.example.com"],
            "--oidc-issuer-url",
            "is not the URL of an issuer",
        ),
        (
            ["--oidc-client-id=a", "--oidc-issuer-url=https://"],
            "--oidc-issuer-url",
            "is not the URL of an issuer",
        ),
        (
            ["--oidc-client-id=a", "--oidc-issuer-url=https://[a"],
            "--oidc-issuer-url",
            "is not the URL of an issuer",
        ),
        (
            ["--oidc-client-id=a", "--oidc-issuer-url=https://a/?b=c"],
            "--oidc-issuer-url",
            "is not the URL of an issuer",
        ),
        (
            ["--oidc-client-id=a", "--oidc-issuer-url=https://u:p@a"],
            "--oidc-issuer-url",
            "is not the URL of an issuer",
        ),
        ([*BOTH, "--oidc-username-claim="], "--oidc-username-claim", "is empty"),
        (
            [*BOTH, "--oidc-groups-prefix=x:"],
            "--oidc-groups-prefix",
            "has no effect without --oidc-groups-claim",
        ),
        ([*BOTH, "--oidc-required-claim=tier"], "--oidc-required-claim", "'tier' is not a pair"),
        ([*BOTH, "--oidc-required-claim==a"], "--oidc-required-claim", "'=a' is not a pair"),
        ([*BOTH, "--oidc-signing-algs=RS256,HS256"], "--oidc-signing-algs", "'HS256' is not known"),
        ([*BOTH, "--oidc-signing-algs=none"], "--oidc-signing-algs", "'none' is not known"),
        ([*BOTH, "--oidc-ca-file=/nowhere"], "--oidc-ca-file", "no file /nowhere"),
    ],
)
def test_incomplete_or_wrong_flags_are_refused(flags: list[str], flag: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_flags(flags)
    assert refused.value.flag == flag
    assert said in str(refused.value)


def test_id_tokens_sign_in_on_the_plain_port() -> None:
    plain = ["--secure-port=0", "--insecure-port=8080"]
    assert [line for line in parse_flags(plain)[1] if "only service account tokens sign in" in line]
    assert parse_flags([*plain, *BOTH])[1] == []
