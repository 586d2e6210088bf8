"""--authentication-config: what the flag refuses, and a server with issuers, expressions and anonymous paths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from rewound.gateway.settings.access import AuthenticationSettings
from rewound.gateway.settings.checks import SettingsError
from rewound.server.extensions import Extensions
from rewound.server.flags.parser import parse_flags
from tests.actors.object_store import ManualClock
from tests.api.access.seen_users import PATH, SeenUsers
from tests.gateway.api import served
from tests.identity_provider import CLIENT_ID, identity_provider
from tests.issuers import issuer

GROUP = {"cluster": "apiserver.config.cluster.io", "kubernetes": "apiserver.config.k8s.io"}


def written(folder: Path, dialect: str = "cluster", **members: Any) -> Path:
    path = folder / "authentication.json"
    kind = "AuthenticationConfiguration"
    path.write_text(json.dumps({"apiVersion": f"{GROUP[dialect]}/v1", "kind": kind, **members}))
    return path


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--oidc-issuer-url=https://a.example.com", "--oidc-client-id=a"],
            "authentication-config file and oidc-* flags are mutually exclusive",
        ),
        (
            ["--dialect=kubernetes", "--kubernetes-version=1.28"],
            "set --feature-gates=StructuredAuthenticationConfiguration=true to use authentication-config file",
        ),
        (
            ["--dialect=kubernetes", "--kubernetes-version=1.29"],
            "set --feature-gates=StructuredAuthenticationConfiguration=true to use authentication-config file",
        ),
    ],
)
def test_flag_is_refused_beside_others_and_in_old_versions(
    flags: list[str], said: str, tmp_path: Path
) -> None:
    path = written(tmp_path)
    with pytest.raises(SettingsError, match="--authentication-config") as error:
        parse_flags(["--data-dir", str(tmp_path / "data"), f"--authentication-config={path}", *flags])
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"jwts": []}, 'strict decoding error: unknown field "jwts"'),
        ({"jwt": [{}]}, "jwt[0].issuer.url: Required value"),
        (
            {"anonymous": {"enabled": True}},
            "--anonymous-auth flag cannot be set when anonymous field is configured",
        ),
    ],
)
async def test_wrong_file_ends_the_start(members: dict[str, Any], said: str, tmp_path: Path) -> None:
    settings = AuthenticationSettings(authentication_config=written(tmp_path, **members))
    with pytest.raises(BaseExceptionGroup) as error:
        async with served(authentication=settings, anonymous_auth=True):
            pass
    refused: BaseException = error.value
    while isinstance(refused, BaseExceptionGroup):
        [refused] = refused.exceptions
    assert isinstance(refused, SettingsError)
    assert said in str(refused)


async def test_server_with_issuers_and_anonymous_paths(tmp_path: Path, mock_clock: MockClock) -> None:
    seen = SeenUsers()
    async with identity_provider(ManualClock().now() / 1_000_000) as provider:
        jwt = {
            "issuer": {
                "url": provider.issuer,
                "audiences": ["x", CLIENT_ID],
                "audienceMatchPolicy": "MatchAny",
                "certificateAuthority": issuer("provider").file.read_text(),
            },
            "claimMappings": {
                "username": {"expression": "'ci:' + claims.sub"},
                "groups": {"expression": "claims.?groups.orValue([])"},
                "extra": [{"key": "example.com/team", "valueExpression": "claims.?team.orValue('')"}],
            },
            "userValidationRules": [{"expression": "user.username != 'ci:mallory'", "message": "not her"}],
        }
        anonymous = {"enabled": True, "conditions": [{"path": "/livez"}]}
        settings = AuthenticationSettings(
            authentication_config=written(tmp_path, jwt=[jwt], anonymous=anonymous)
        )
        async with served(extensions=Extensions(authorizers=[seen]), authentication=settings) as api:
            token = provider.token(groups=["devs"], team="core", jti="7")
            assert (await api.ask("GET", PATH, token=token)).status == 200
            user = seen.last()
            assert (user.name, user.groups) == ("ci:alice", ("devs", "system:authenticated"))
            assert user.extra == (
                ("authentication.cluster.io/credential-id", ("JTI=7",)),
                ("example.com/team", ("core",)),
            )
            assert (await api.ask("GET", "/livez", token=None)).status == 200
            assert (await api.ask("GET", PATH, token=None)).status == 401
            mallory = provider.token(sub="mallory")
            assert (await api.ask("GET", PATH, token=mallory)).status == 401
            review = await api.ask(
                "POST", "/apis/authentication.cluster.io/v1/tokenreviews", {"spec": {"token": mallory}}
            )
            assert review.expect(201)["status"]["error"] == (
                "[invalid bearer token, oidc: error evaluating user info validation rule: validation expression "
                "'user.username != 'ci:mallory'' failed: not her]"
            )
            metrics = (await api.ask("GET", "/metrics")).body.decode()
            assert (
                'apiserver_authentication_jwt_authenticator_latency_seconds_count{jwt_issuer_hash="sha256:'
                in metrics
            )
            assert "apiserver_authentication_config_controller_last_config_info{" in metrics
