"""OIDC ID tokens with a real HTTPS identity provider: signatures, keys, discovery, and a provider that misbehaves."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jwt
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm
from jwt.api_jws import PyJWS
from trio.testing import MockClock

import rewound.actors.access.authentication.oidc as oidc_module
import rewound.actors.access.authentication.oidc as provider_module
from rewound.actors.access.authentication.authenticate import Authenticated
from rewound.actors.access.authentication.oidc import (
    MAX_BYTES,
    PAUSE,
    TIME_LIMIT,
    BadSignature,
    Key,
    OidcTokens,
    Provider,
    ProviderError,
    TokenHeader,
    token_header,
    verified_claims,
)
from rewound.actors.access.authentication.oidc_claims import ALGORITHMS, ClaimRules
from rewound.actors.access.remote.calls import NO_CALLS
from rewound.actors.identity import User
from rewound.actors.runtime.background_import import imported
from rewound.gateway.outgoing.webhook import HttpsCalls
from tests.actors.object_store import ManualClock
from tests.identity_provider import (
    CLIENT_ID,
    DISCOVERY,
    KEYS,
    IdentityProvider,
    ec_key,
    identity_provider,
    public_jwk,
    rsa_key,
)
from tests.issuers import bundle, issuer, with_key

ALICE = User("alice", groups=("system:authenticated",))


@pytest.fixture(autouse=True)
def _still(mock_clock: MockClock) -> None:
    """Time passes only when a test advances it: a busy machine makes no provider slow."""


@dataclass
class Signing:
    """A server that accepts the tokens of a provider."""

    provider: IdentityProvider
    method: OidcTokens
    clock: ManualClock

    async def user(self, token: str | bytes, audiences: tuple[str, ...] = ()) -> User | None:
        raw = token.encode() if isinstance(token, str) else token
        found = self.method.authenticate(raw, audiences)
        result = found if found is None or isinstance(found, Authenticated) else await found
        return result.user if isinstance(result, Authenticated) else None

    def known(self, token: str) -> bool:
        """Whether the token is accepted without waiting."""
        found = self.method.authenticate(token.encode(), ())
        if isinstance(found, Coroutine):
            found.close()
        return isinstance(found, Authenticated)


@asynccontextmanager
async def signing(
    *,
    algorithms: tuple[str, ...] = ("RS256",),
    ca_file: Path | None = None,
    certificate: Path | None = None,
    audiences: tuple[str, ...] = (),
    username_claim: str = "sub",
) -> AsyncIterator[Signing]:
    clock = ManualClock()
    await imported("jwt")  # so that tasks that authenticate start to wait in a known order
    async with identity_provider(clock.now() / 1_000_000, certificate) as provider:
        rules = ClaimRules(provider.issuer, (CLIENT_ID,), username_claim)
        remote = Provider(provider.issuer, ca_file or issuer("provider").file, HttpsCalls())
        yield Signing(provider, OidcTokens(rules, remote, algorithms, clock, audiences), clock)


async def test_token_of_the_provider_names_its_user() -> None:
    async with signing() as server:
        assert server.provider.asked == [], "nothing is fetched before there is a token"
        assert await server.user(server.provider.token()) == ALICE
        assert await server.user(server.provider.token(aud=["other", CLIENT_ID])) == ALICE
        assert server.provider.asked == [DISCOVERY, KEYS]


async def test_tokens_of_others_pass_on_without_waiting() -> None:
    async with signing() as server:
        for token in (
            server.provider.token(iss="https://other.example.com"),
            server.provider.token(iss=server.provider.issuer + "/"),
            server.provider.token(iss=None),
            "a.b.c",
            "opaque",
            "a.b",
            "..",
            "a.W10.c",
            "a.%%%.c",
        ):
            assert server.method.authenticate(token.encode(), ()) is None
        assert server.method.authenticate(b"\xff.\xff.\xff", ()) is None
        assert server.provider.asked == []


async def test_token_of_google_without_a_scheme_is_verified() -> None:
    provider = Provider("https://accounts.google.com", None, NO_CALLS)
    provider.keys = (Key("first", None, rsa_key("first").public_key()),)
    clock = ManualClock()
    method = OidcTokens(ClaimRules(provider.issuer, (CLIENT_ID,)), provider, ("RS256",), clock)
    claims = {"aud": CLIENT_ID, "sub": "alice", "exp": clock.now() // 1_000_000 + 600}
    for issuer_claim in ("accounts.google.com", "https://accounts.google.com"):
        token = jwt.encode({**claims, "iss": issuer_claim}, rsa_key("first"), "RS256", {"kid": "first"})
        found = method.authenticate(token.encode(), ())
        assert isinstance(found, Coroutine) and (await found) == Authenticated(ALICE)


async def test_token_must_be_valid_now_and_for_this_client() -> None:
    async with signing() as server:
        now = int(server.provider.now)
        for changed in (
            {"exp": now},
            {"exp": now - 1},
            {"exp": None},
            {"exp": "never"},
            {"exp": True},
            {"exp": 1e300},
            {"exp": 10**19},
            {"iat": "now"},
            {"nbf": now + 61},
            {"nbf": "today"},
            {"aud": "other"},
            {"aud": ["other"]},
            {"aud": None},
            {"aud": {CLIENT_ID: 1}},
            {"aud": f"{CLIENT_ID} other"},
            {"sub": None},
            {"sub": ""},
            {"sub": 5},
            {"jti": 5},
        ):
            raw = jwt.api_jws.encode(
                json.dumps(server.provider.claims(**changed)).encode(),
                rsa_key("first"),
                "RS256",
                {"kid": "first"},
            )
            assert await server.user(raw) is None, changed
        assert await server.user(server.provider.token(nbf=now + 59, exp=now + 1)) == ALICE


async def test_numeric_sub_is_refused_also_if_another_claim_names_the_user() -> None:
    async with signing(username_claim="name") as server:
        assert await server.user(server.provider.token(name="alice")) == ALICE
        claims = json.dumps(server.provider.claims(name="alice", sub=5)).encode()
        raw = jwt.api_jws.encode(claims, rsa_key("first"), "RS256", {"kid": "first"})
        assert await server.user(raw) is None


async def test_members_of_a_token_occur_once() -> None:
    async with signing() as server:
        text = json.dumps(server.provider.claims())
        for claims in ('{"sub": "bob", ' + text[1:], text[:-1] + ', "sub": "alice"}'):
            raw = jwt.api_jws.encode(claims.encode(), rsa_key("first"), "RS256", {"kid": "first"})
            assert await server.user(raw) is None, claims
        for header, user in (
            ('{"alg":"RS256","kid":"first"}', ALICE),
            ('{"alg":"RS256","alg":"RS256","kid":"first"}', None),
            ('{"alg":"RS256","kid":"first","x":1,"x":2}', None),
        ):
            parts = [base64.urlsafe_b64encode(one.encode()).rstrip(b"=") for one in (header, text)]
            signature = RSAAlgorithm(RSAAlgorithm.SHA256).sign(b".".join(parts), rsa_key("first"))
            token = b".".join((*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")))
            assert await server.user(token.decode()) == user, header


async def test_verified_token_is_known_until_it_expires() -> None:
    async with signing() as server:
        token = server.provider.token()
        assert not server.known(token)
        await server.user(token)
        assert server.known(token)
        server.clock.advance(599)
        assert server.known(token)
        server.clock.advance(1)
        assert not server.known(token)
        assert await server.user(token) is None


async def test_verified_tokens_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc_module, "MAX_VERIFIED", 2)
    async with signing() as server:
        tokens = [server.provider.token(jti=str(number)) for number in range(3)]
        for token in tokens:
            assert await server.user(token) == ALICE
        assert [server.known(token) for token in tokens] == [False, True, True]


def forged(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


async def test_forged_tokens_are_refused(mock_clock: MockClock) -> None:
    async with signing() as server:
        provider = server.provider
        claims = provider.claims()
        public = rsa_key("first").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        own = public_jwk(rsa_key("attacker"), kid="own")
        attacker = rsa_key("attacker")
        valid = provider.token()
        header, _, signature = valid.split(".")
        hmac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
        confused = forged({"alg": "HS256", "kid": "first"}, claims)[:-1]
        confused += "." + base64.urlsafe_b64encode(hmac.sign(confused.encode(), public)).rstrip(b"=").decode()
        tokens = [
            forged({"alg": "none", "kid": "first"}, claims),
            forged({"alg": "None"}, claims),
            forged({"alg": ""}, claims),
            forged({}, claims),
            forged({"alg": "RS256", "kid": "first"}, claims),
            confused,
            jwt.encode(claims, attacker, "RS256", {"kid": "first"}),
            jwt.encode(claims, attacker, "RS256"),
            jwt.encode(claims, attacker, "RS256", {"kid": "own", "jwk": own}),
            jwt.encode(claims, attacker, "RS256", {"kid": "own", "jku": f"{provider.issuer}/attacker"}),
            jwt.encode(claims, attacker, "RS256", {"kid": "own", "x5u": f"{provider.issuer}/attacker"}),
            jwt.encode(claims, rsa_key("first"), "RS512", {"kid": "first"}),
            jwt.encode(claims, rsa_key("first"), "PS256", {"kid": "first"}),
            jwt.encode(claims, ec_key("first"), "ES256", {"kid": "first"}),
            jwt.encode(claims, rsa_key("first"), "RS256", {"kid": "first", "crit": ["x"], "x": 1}),
            f"{header}.{forged({}, {**claims, 'sub': 'root'}).split('.')[1]}.{signature}",
            f"{valid}.{signature}",
        ]
        provider.documents["/realm/attacker"] = json.dumps({"keys": [own]}).encode()
        for token in tokens:
            assert await server.user(token) is None, token
        assert await server.user(valid) == ALICE
        assert set(provider.asked) == {DISCOVERY, KEYS}, "no address of a token was asked"


async def test_key_without_id_or_with_one_verifies_tokens_without_id() -> None:
    async with signing() as server:
        server.provider.publish(public_jwk(rsa_key("second")), public_jwk(rsa_key("first"), kid="first"))
        claims = server.provider.claims()
        assert await server.user(jwt.encode(claims, rsa_key("first"), "RS256")) == ALICE
        assert await server.user(jwt.encode(claims, rsa_key("second"), "RS256")) == ALICE
        assert await server.user(jwt.encode(claims, rsa_key("second"), "RS256", {"kid": "other"})) is None


@cache
def short_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 1024)


def test_header_that_is_nested_too_deeply_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object) -> object:
        raise RecursionError

    monkeypatch.setattr(PyJWS, "_load", load)  # as in older releases of the library
    with pytest.raises(BadSignature):
        token_header(b"a.b.c", ("RS256",))
    key = Key(None, None, rsa_key("first").public_key())
    assert verified_claims(b"a.b.c", TokenHeader("RS256", None), [key]) is None


async def test_only_usable_keys_count() -> None:
    """Encryption keys, symmetric keys, unsupported key types and broken keys are skipped, not refused."""
    async with signing(algorithms=("RS256", "ES256")) as server:
        good = public_jwk(ec_key("good"), kid="good")
        secret = base64.urlsafe_b64encode(b"s" * 32).decode()
        server.provider.publish(
            {"kty": "oct", "k": secret, "kid": "shared", "alg": "HS256"},
            {"kty": "RSA", "kid": "broken"},
            {"kty": "OKP", "kid": "odd"},
            {**public_jwk(rsa_key("first")), "kid": "enc", "use": "enc"},
            {**public_jwk(rsa_key("first")), "kid": "rs512", "alg": "RS512"},
            {**public_jwk(short_key()), "kid": "short"},
            good,
        )
        claims = server.provider.claims()
        assert await server.user(jwt.encode(claims, ec_key("good"), "ES256", {"kid": "good"})) == ALICE
        for kid in ("enc", "rs512"):
            assert await server.user(jwt.encode(claims, rsa_key("first"), "RS256", {"kid": kid})) is None
        with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):
            short = jwt.encode(claims, short_key(), "RS256", {"kid": "short"})
        assert await server.user(short) is None
        assert await server.user(jwt.encode(claims, b"s" * 32, "HS256", {"kid": "shared"})) is None


async def test_rotated_keys_are_fetched_when_a_token_names_them(mock_clock: MockClock) -> None:
    async with signing() as server:
        provider = server.provider
        old = provider.token()
        assert await server.user(old) == ALICE
        mock_clock.jump(PAUSE)
        provider.rotate("first", "second")
        assert await server.user(provider.token(sub="bob")) == User("bob", groups=("system:authenticated",))
        assert await server.user(old) == ALICE
        mock_clock.jump(PAUSE)
        provider.rotate("third")
        assert await server.user(provider.token()) == ALICE
        assert not server.known(old), "its key is gone"
        assert await server.user(old) is None
        assert provider.asked == [DISCOVERY, KEYS, KEYS, KEYS]


async def test_token_ends_with_its_key_whatever_causes_the_fetch(mock_clock: MockClock) -> None:
    async with signing() as server:
        provider = server.provider
        old = provider.token()
        assert await server.user(old) == ALICE
        mock_clock.jump(PAUSE)
        provider.rotate("second")
        assert await server.user(old) == ALICE, "the server has not fetched the keys again"
        invented = jwt.encode(provider.claims(), rsa_key("attacker"), "RS256", {"kid": "invented"})
        assert await server.user(invented) is None
        assert await server.user(old) is None


async def test_invented_key_ids_cause_one_fetch_in_ten_seconds(mock_clock: MockClock) -> None:
    async with signing() as server:
        provider = server.provider
        assert await server.user(provider.token()) == ALICE
        junk = [
            jwt.encode(provider.claims(), rsa_key("attacker"), "RS256", {"kid": str(number)})
            for number in range(5)
        ]
        for token in junk:
            assert await server.user(token) is None
        assert provider.asked == [DISCOVERY, KEYS]
        mock_clock.jump(PAUSE)
        async with trio.open_nursery() as nursery:
            for token in junk:
                nursery.start_soon(server.user, token)
        assert provider.asked == [DISCOVERY, KEYS, KEYS], "one fetch at a time, for all that wait"
        assert await server.user(provider.token(sub="bob")) is not None


async def test_dead_provider_is_asked_again_every_ten_seconds(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with signing() as server:
        provider = server.provider
        good = dict(provider.documents)
        provider.documents.clear()
        token = provider.token()
        for _ in range(3):
            assert await server.user(token) is None
        assert provider.asked == [DISCOVERY]
        assert "responds with status 404" in caplog.text
        assert token not in caplog.text
        mock_clock.jump(PAUSE)
        assert await server.user(token) is None
        provider.documents.update(good)
        assert await server.user(token) is None, "not before ten seconds have passed"
        mock_clock.jump(PAUSE)
        assert await server.user(token) == ALICE


async def test_silent_provider_delays_its_own_users_for_ten_seconds(mock_clock: MockClock) -> None:
    async with signing() as server:
        provider = server.provider
        provider.answers = False
        results: list[User | None] = []

        async def sign_in() -> None:
            results.append(await server.user(provider.token()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sign_in)
            nursery.start_soon(sign_in)
            with trio.fail_after(60):
                while not provider.asked:
                    await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
            assert results == []
            mock_clock.jump(TIME_LIMIT)
        assert results == [None, None]
        assert provider.asked == [DISCOVERY]
        assert server.method.authenticate(b"of.another.method", ()) is None


async def test_requests_that_wait_for_the_provider_are_bounded(
    mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_module, "MAX_WAITING", 2)
    async with signing() as server:
        provider = server.provider
        provider.gate = trio.Event()
        results: list[User | None] = []

        async def sign_in() -> None:
            results.append(await server.user(provider.token()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sign_in)
            nursery.start_soon(sign_in)
            with trio.fail_after(60):
                while not provider.asked:
                    await trio.lowlevel.checkpoint()
            await sign_in()
            assert results == [None], "the third does not wait"
            provider.gate.set()
        assert results == [None, ALICE, ALICE]


async def test_every_allowed_algorithm_verifies() -> None:
    async with signing(algorithms=ALGORITHMS) as server:
        keys: dict[str, Any] = {
            "ES256": ec_key("good"),
            "ES384": ec.generate_private_key(ec.SECP384R1()),
            "ES512": ec.generate_private_key(ec.SECP521R1()),
        }
        published = [public_jwk(key, kid=name) for name, key in keys.items()]
        server.provider.publish(public_jwk(rsa_key("first"), kid="RSA"), *published)
        for name in ALGORITHMS:
            key, kid = (keys[name], name) if name in keys else (rsa_key("first"), "RSA")
            token = jwt.encode(server.provider.claims(), key, name, {"kid": kid})
            assert await server.user(token) == ALICE, name


async def test_client_that_disconnects_does_not_end_the_fetch_of_others(mock_clock: MockClock) -> None:
    async with signing() as server:
        provider = server.provider
        provider.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.user, provider.token())
            with trio.fail_after(60):
                while not provider.asked:
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        provider.gate.set()
        assert await server.user(provider.token()) == ALICE
        assert provider.asked == [DISCOVERY, KEYS]


async def test_discovery_of_another_issuer_or_without_https_keys_is_refused(mock_clock: MockClock) -> None:
    async with signing() as server:
        provider = server.provider
        with pytest.raises(ProviderError, match="https"):  # also if a server responds there
            provider_module._keys_url({"issuer": "i", "jwks_uri": "http://i/keys"}, "i")
        for changed in (
            {"issuer": "https://other.example.com"},
            {"issuer": provider.issuer + "/"},
            {"issuer": None},
            {"jwks_uri": f"http://127.0.0.1:{provider.port}{KEYS}"},
            {"jwks_uri": None},
            {"jwks_uri": "https://"},
            {"jwks_uri": "https://[::1"},
        ):
            provider.publish(public_jwk(rsa_key("first"), kid="first"), **changed)
            assert await server.user(provider.token()) is None, changed
            mock_clock.jump(PAUSE)
        provider.rotate("first")
        assert await server.user(provider.token()) == ALICE


async def test_huge_or_odd_documents_are_refused(mock_clock: MockClock) -> None:
    chunks = b"".join(b"8000\r\n" + b" " * 0x8000 + b"\r\n" for _ in range(MAX_BYTES // 0x8000 + 1))
    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    async with signing() as server:
        provider = server.provider
        good = dict(provider.documents)
        for path, body in (
            (DISCOVERY, b" " * (MAX_BYTES + 1)),
            (DISCOVERY, endless),
            (KEYS, good[KEYS] + b" " * MAX_BYTES),
            (DISCOVERY, b"no JSON"),
            (DISCOVERY, b"[]"),
            (DISCOVERY, b"[" * 100_000),
            (KEYS, b"[]"),
            (KEYS, b'{"keys": {}}'),
            (DISCOVERY, b"HTTP/1.1 302 Found\r\nLocation: /realm/elsewhere\r\nContent-Length: 0\r\n\r\n"),
            (KEYS, b"HTTP/1.1 nonsense\r\n\r\n"),
            (KEYS, b'{"keys": [1, null, {}, {"kty": {}}, {"kty": "RSA", "n": 5, "e": []}]}'),
        ):
            provider.documents.update({**good, "/realm/elsewhere": good[DISCOVERY], path: body})
            assert await server.user(provider.token()) is None, body[:50]
            mock_clock.jump(PAUSE)
        provider.documents.update(good)
        assert await server.user(provider.token()) == ALICE


async def test_certificate_of_the_provider_must_be_by_a_ca(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A self-signed certificate in the CA file is trusted only if it has the CA flag."""
    caplog.set_level(logging.WARNING)
    for one, accepted in ((issuer("self-signed", ca=False), False), (issuer("self-signed CA"), True)):
        async with signing(ca_file=one.file, certificate=with_key(one)) as server:
            assert (await server.user(server.provider.token()) == ALICE) is accepted
    assert "has the CA flag" in caplog.text
    both = bundle(issuer("self-signed", ca=False), issuer("provider"))
    async with signing(ca_file=both, certificate=with_key(issuer("self-signed", ca=False))) as server:
        assert await server.user(server.provider.token()) is None
    async with signing(ca_file=both) as server:
        assert await server.user(server.provider.token()) == ALICE
    async with signing(ca_file=issuer("other").file) as server:
        assert await server.user(server.provider.token()) is None
        assert server.provider.asked == []


async def test_without_a_ca_file_the_roots_of_the_host_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(issuer("provider").file))  # where OpenSSL looks for them
    async with identity_provider(ManualClock().now() / 1_000_000) as provider:
        method = OidcTokens(
            ClaimRules(provider.issuer, (CLIENT_ID,)),
            Provider(provider.issuer, None, HttpsCalls()),
            ("RS256",),
            ManualClock(),
        )
        assert await Signing(provider, method, ManualClock()).user(provider.token()) == ALICE


async def test_refusals_are_logged_without_the_token_and_once_in_ten_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rewound.actors.access")
    async with signing() as server:
        tokens = [server.provider.token(aud="other", jti=str(number)) for number in range(3)]
        for token in tokens:
            assert await server.user(token) is None
        assert caplog.messages == ["an ID token was rejected: aud does not contain the client id"]
        server.clock.advance(10)
        assert await server.user(tokens[0]) is None
        assert len(caplog.messages) == 2
        assert not [token for token in tokens if token.split(".")[2] in caplog.text]


async def test_review_may_name_the_audiences_of_the_server() -> None:
    async with signing(audiences=("api", "api2")) as server:
        token = server.provider.token().encode()
        for _ in range(2):
            found = server.method.authenticate(token, ("vault", "api"))
            result = found if found is None or isinstance(found, Authenticated) else await found
            assert result == Authenticated(ALICE, audiences=("api",))
        assert server.method.authenticate(token, ("vault",)) is None
