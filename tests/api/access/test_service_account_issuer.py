"""The OpenID configuration and the key set, with which others verify service account tokens; and the flags of keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from rewound.actors.access.accounts.claims import AccountOptions
from rewound.actors.access.accounts.keys import AccountKeyError
from rewound.actors.names import NAMES
from rewound.gateway.settings.access import ServiceAccountSettings
from rewound.gateway.settings.checks import SettingsError
from rewound.server.flags.parser import parse_flags
from tests.cases import cases
from tests.gateway.account_tokens import (
    ISSUER,
    claims_of,
    issued,
    new_key,
    own_key,
    private_pem,
    public_pem,
    signed,
    status_with,
)
from tests.gateway.api import ALICE, Api, served
from tests.gateway.https import certificates, served_securely
from tests.gateway.shared_server import shared
from tests.identity_provider import rsa_key

CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"


async def verify_as_others_do(api: Api, token: str) -> dict[str, Any]:
    """Fetch the documents, and verify the token with nothing else."""
    configuration = (await api.ask("GET", CONFIGURATION)).document
    keys = jwt.PyJWKSet.from_dict((await api.ask("GET", KEYS)).document)
    key = keys[jwt.get_unverified_header(token)["kid"]]
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=configuration["id_token_signing_alg_values_supported"],
        audience=ISSUER,
        issuer=configuration["issuer"],
        options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
    )
    return claims


async def test_others_can_verify_tokens_with_the_published_keys() -> None:
    async with served() as api:
        token = await issued(api, "default")
        assert await verify_as_others_do(api, token) == claims_of(token)
        response = await api.ask("GET", CONFIGURATION)
        assert response.headers["content-type"] == "application/json"
        assert response.headers["cache-control"] == "public, max-age=3600"
        address = f"127.0.0.1:{api.addresses.insecure[1]}" if api.addresses.insecure else ""
        assert response.document == {
            "issuer": ISSUER,
            "jwks_uri": f"https://{address}{KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        response = await api.ask("GET", KEYS)
        assert response.headers["content-type"] == "application/jwk-set+json"
        assert response.headers["cache-control"] == "public, max-age=3600"
        (key,) = response.document["keys"]
        assert (key["use"], key["alg"], key["kty"], key["crv"]) == ("sig", "ES256", "EC", "P-256")
        assert "d" not in key
        paths = (await api.ask("GET", "/")).document["paths"]
        assert {CONFIGURATION, KEYS} <= set(paths)
        assert (await api.ask("POST", KEYS, b"{}")).status == 405
        assert (await api.ask("GET", f"{KEYS}/")).status == 200
        assert (await api.ask("GET", KEYS, token=None)).status == 403
        assert (await api.ask("GET", KEYS, token=ALICE)).status == 403
        assert (await api.ask("GET", KEYS, token=token)).status == 200  # by a default role
        assert (await api.ask("GET", CONFIGURATION, token=token)).status == 200


async def test_openapi_describes_the_documents_of_the_issuer() -> None:
    described = {
        CONFIGURATION: ("getServiceAccountIssuerOpenIDConfiguration", "WellKnown", "application/json"),
        KEYS: ("getServiceAccountIssuerOpenIDKeyset", "openid", "application/jwk-set+json"),
    }
    async with shared() as api:
        for path, (name, tag, media) in described.items():
            document = (await api.ask("GET", f"/openapi/v3{path}")).expect(200)
            operation = document["paths"][f"{path}/"]["get"]
            assert (operation["operationId"], operation["tags"]) == (name, [tag])
            assert operation["responses"]["200"]["content"] == {media: {"schema": {"type": "string"}}}


async def test_issuer_that_is_no_https_url_is_not_described() -> None:
    plain = ServiceAccountSettings(service_account_issuer=("my-issuer",))
    async with served(service_accounts=plain) as api:
        assert claims_of(await issued(api, "default"))["iss"] == "my-issuer"
        assert (await api.ask("GET", CONFIGURATION)).status == 404
        assert (await api.ask("GET", KEYS)).status == 404
        assert (await api.ask("GET", f"/openapi/v3{KEYS}")).status == 404


async def test_issuer_of_token_secrets_may_be_that_of_all_tokens() -> None:
    name = NAMES["cluster"].secret_token_issuer
    async with served(service_accounts=ServiceAccountSettings(service_account_issuer=(name,))) as api:
        token = await issued(api, "default")
        assert claims_of(token)["iss"] == name
        assert await status_with(api, token) == 403


async def test_keys_of_flags_sign_and_verify(tmp_path: Path) -> None:
    accepted, certificate_key = new_key(), ec.generate_private_key(ec.SECP384R1())
    (tmp_path / "signing.pem").write_bytes(private_pem(rsa_key("issuer")))
    (tmp_path / "several.pem").write_bytes(
        b"a comment\n" + public_pem(accepted) + private_pem(certificate_key)
    )
    given = ServiceAccountSettings(
        service_account_signing_key_file=tmp_path / "signing.pem",
        service_account_key_file=(str(tmp_path / "several.pem"),),
        service_account_jwks_uri="https://keys.example/jwks",
    )
    async with served(service_accounts=given) as api:
        token = await issued(api, "default")
        assert jwt.get_unverified_header(token)["alg"] == "RS256"
        assert await verify_as_others_do(api, token) == claims_of(token)
        assert not (api.settings.pki / "sa.key").exists()
        assert await status_with(api, token) == 403
        claims = claims_of(token)
        assert await status_with(api, signed(claims, rsa_key("issuer"), "PS256")) == 403
        assert await status_with(api, signed(claims, accepted)) == 403
        assert await status_with(api, signed(claims, certificate_key, "ES384")) == 403
        assert await status_with(api, signed(claims, new_key())) == 401
        configuration = (await api.ask("GET", CONFIGURATION)).document
        assert configuration["jwks_uri"] == "https://keys.example/jwks"
        assert configuration["id_token_signing_alg_values_supported"] == ["ES256", "ES384", "RS256"]


async def test_key_of_the_secure_port_is_accepted_unless_key_files_are_given() -> None:
    folder = certificates("cluster")
    tls = {"tls_cert_file": folder / "server.crt", "tls_private_key_file": folder / "server.key"}
    key = serialization.load_pem_private_key((folder / "server.key").read_bytes(), None)
    async with served_securely(**tls) as api:
        token = await issued(api, "default")
        assert await status_with(api, signed(claims_of(token), key)) == 403
        own = api.settings.pki / "sa.key"
        await api.restart(service_accounts=ServiceAccountSettings(service_account_key_file=(str(own),)))
        assert await status_with(api, signed(claims_of(token), key)) == 401
        assert await status_with(api, signed(claims_of(token), own_key(api))) == 403


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "contains no RSA or ECDSA key"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "cannot be read"),
        (public_pem(ed25519.Ed25519PrivateKey.generate()), "neither RSA nor ECDSA"),
        (public_pem(rsa.generate_private_key(65537, 1024)), "has 1024 bits"),
    ],
)
async def test_unusable_key_file_stops_the_start(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    given = ServiceAccountSettings(service_account_key_file=(str(path),))
    refused = pytest.RaisesExc(AccountKeyError, match=f"^--service-account-key-file: .*{message}")
    with pytest.RaisesGroup(refused, flatten_subgroups=True, allow_unwrapped=True):
        async with served(service_accounts=given):
            pass


def test_flags_become_settings(tmp_path: Path) -> None:
    first, second = tmp_path / "a.pem", tmp_path / "b.pem"
    for path in (first, second):
        path.write_bytes(public_pem(new_key()))
    settings, _ = parse_flags(
        [
            f"--data-dir={tmp_path / 'data'}",
            f"--service-account-key-file={first}",
            f"--service-account-key-file={second}",
            f"--service-account-signing-key-file={first}",
            "--service-account-issuer=https://one.example",
            "--service-account-issuer=two",
            "--api-audiences=a,b",
            "--api-audiences=c",
            "--service-account-lookup=false",
            "--service-account-extend-token-expiration=false",
            "--service-account-max-token-expiration=24h",
            "--service-account-jwks-uri=https://one.example/keys",
        ]
    )
    assert settings.service_accounts.key_files == (first, second)
    assert settings.service_accounts.service_account_signing_key_file == first
    assert settings.service_accounts.options(NAMES["cluster"]) == AccountOptions(
        ("https://one.example", "two"),
        ("a", "b", "c"),
        lookup=False,
        max_seconds=86400,
        extend=False,
        keys_url="https://one.example/keys",
    )


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
def test_default_audience_is_the_issuer(dialect: str) -> None:
    assert ServiceAccountSettings().options(NAMES[dialect]) == AccountOptions((ISSUER,), (ISSUER,))


@cases(
    ("given", "flag"),
    [
        ({"service_account_issuer": ("",)}, "--service-account-issuer"),
        ({"service_account_issuer": ("a", "a")}, "--service-account-issuer"),
        ({"service_account_issuer": (":a",)}, "--service-account-issuer"),
        ({"service_account_issuer": ("https://a:port",)}, "--service-account-issuer"),
        ({"service_account_max_token_expiration": 60.0}, "--service-account-max-token-expiration"),
        ({"service_account_jwks_uri": "http://a"}, "--service-account-jwks-uri"),
        ({"service_account_key_file": ("/nowhere",)}, "--service-account-key-file"),
        ({"service_account_signing_key_file": Path("/nowhere")}, "--service-account-signing-key-file"),
    ],
)
def test_impossible_settings_are_refused(given: dict[str, Any], flag: str) -> None:
    with pytest.raises(SettingsError) as refused:
        ServiceAccountSettings(**given)
    assert refused.value.flag == flag
