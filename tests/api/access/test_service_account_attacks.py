"""Forged, changed and misdirected service account tokens are refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from jwt.algorithms import ECAlgorithm
from jwt.api_jws import PyJWS

from rewound.actors.access.accounts.keys import KeyFiles, load_keys
from rewound.gateway.settings.access import ServiceAccountSettings
from tests.actors.object_store import Document
from tests.cases import checking
from tests.gateway.account_tokens import (
    claims_of,
    forged,
    issued,
    new_key,
    own_key,
    public_pem,
    signed,
    status_with,
)
from tests.gateway.api import Api, served


@asynccontextmanager
async def with_token() -> AsyncIterator[tuple[Api, str, Document]]:
    """A server, a valid token of an account, and its claims."""
    async with served() as api:
        token = await issued(api, "default")
        assert await status_with(api, token) == 403
        yield api, token, claims_of(token)


def segment(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed_raw(key: Any, claims: str, header: str = '{"alg":"ES256"}') -> str:
    """A token with exactly these texts as header and claims."""
    signed_text = f"{segment(header.encode())}.{segment(claims.encode())}"
    signature = ECAlgorithm(ECAlgorithm.SHA256).sign(signed_text.encode(), key)
    return f"{signed_text}.{segment(signature)}"


async def test_own_signature_is_accepted_with_and_without_key_id() -> None:
    async with with_token() as (api, _, claims):
        assert await status_with(api, signed(claims, own_key(api))) == 403
        assert await status_with(api, signed(claims, own_key(api), kid="unknown")) == 403


async def test_token_without_signature_is_refused() -> None:
    async with with_token() as (api, token, claims):
        for algorithm in ("none", "None", "NONE", "", None):
            for signature in (b"", b"x" * 64):
                assert await status_with(api, forged({"alg": algorithm}, claims, signature)) == 401
        assert await status_with(api, token.rpartition(".")[0] + ".") == 401


async def test_public_key_as_hmac_secret_is_refused() -> None:
    async with with_token() as (api, _, claims):
        pem = public_pem(own_key(api))
        for algorithm in ("HS256", "HS384", "HS512"):
            head = segment(json.dumps({"alg": algorithm, "typ": "JWT"}).encode())
            signing_input = f"{head}.{segment(json.dumps(claims).encode())}"
            digest = getattr(hashlib, algorithm.replace("HS", "sha"))
            for secret in (pem, pem.strip()):
                signature = hmac.new(secret, signing_input.encode(), digest).digest()
                assert await status_with(api, f"{signing_input}.{segment(signature)}") == 401


async def test_key_in_the_header_of_the_token_is_not_used() -> None:
    async with with_token() as (api, _, claims):
        untrusted = new_key()
        numbers = untrusted.public_key().public_numbers()
        jwk = {
            "kty": "EC",
            "crv": "P-256",
            "x": segment(numbers.x.to_bytes(32, "big")),
            "y": segment(numbers.y.to_bytes(32, "big")),
        }
        headers: list[dict[str, Any]] = [
            {"jwk": jwk},
            {"jku": "https://attacker.example/keys"},
            {"x5u": "https://attacker.example/chain"},
            {"x5c": [base64.b64encode(public_pem(untrusted)).decode()]},
            {},
        ]
        for header in headers:
            assert await status_with(api, signed(claims, untrusted, **header)) == 401


async def test_critical_extension_is_refused() -> None:
    async with with_token() as (api, _, claims):
        assert await status_with(api, signed(claims, own_key(api), crit=["exp"], exp=1)) == 401


async def test_times_are_checked() -> None:
    async with with_token() as (api, _, claims):
        key, now = own_key(api), api.clock.now() // 1_000_000
        for wrong in (
            {"exp": now - 60},
            {"exp": now - 100},
            {"exp": str(now + 100)},
            {"exp": True},
            {"nbf": now + 61},
            {"nbf": str(now)},
            {"iat": str(now)},
        ):
            assert await status_with(api, signed({**claims, **wrong}, key)) == 401, wrong
        for right in ({"exp": now - 59}, {"nbf": now + 60}, {"iat": now + 9999}):
            assert await status_with(api, signed({**claims, **right}, key)) == 403, right
        early = signed({**claims, "nbf": now + 65}, key)
        assert await status_with(api, early) == 401
        api.clock.advance(5)
        assert await status_with(api, early) == 403


async def test_claims_have_their_types_and_a_bound_token_ends() -> None:
    async with with_token() as (api, _, claims):
        key = own_key(api)
        wrong: list[Document] = [
            {"exp": 1e300},
            {"exp": 1e19},
            {"exp": -1e300},
            {"exp": None},
            {"nbf": 1e300},
            {"nbf": None},
            {"sub": 5},
            {"sub": ["a"]},
            {"jti": 5},
            {"aud": None},
        ]
        with checking() as case:
            for one in wrong:
                with case(one):
                    assert await status_with(api, signed_raw(key, json.dumps({**claims, **one}))) == 401
            for missing in ("exp",):
                with case(f"without {missing}"):
                    rest = {name: value for name, value in claims.items() if name != missing}
                    assert await status_with(api, signed_raw(key, json.dumps(rest))) == 401
            with case("a far end"):
                assert await status_with(api, signed_raw(key, json.dumps({**claims, "exp": 1e15}))) == 403
        review = {"spec": {"token": signed_raw(key, json.dumps({**claims, "exp": 0}))}}
        status = (await api.ask("POST", api.path("tokenreviews", None), review)).expect(201)["status"]
        assert status["error"] == "[invalid bearer token, service account token has expired]"


async def test_members_of_a_token_occur_once() -> None:
    async with with_token() as (api, _, claims):
        key, text = own_key(api), json.dumps(claims)
        assert await status_with(api, signed_raw(key, text)) == 403
        account = json.dumps(claims["cluster.io"]["serviceaccount"])
        doubled = [
            text[:-1] + f', "exp": {claims["exp"]}}}',
            '{"sub": "someone", ' + text[1:],
            text.replace(account, account[:-1] + ', "name": "default"}'),
            text.replace('"exp"', '"\\u0065xp": 1, "exp"'),
        ]
        with checking() as case:
            for one in doubled:
                with case(one):
                    assert await status_with(api, signed_raw(key, one)) == 401
            for header in (
                '{"alg":"ES256","alg":"ES256"}',
                '{"alg":"ES256","x":1,"x":1}',
                '{"alg":"ES256","kid":5}',
            ):
                with case(header):
                    assert await status_with(api, signed_raw(key, text, header)) == 401


async def test_tokens_in_secrets_need_no_end() -> None:
    async with served() as api:
        name = "token-of-default"
        secret = {
            "metadata": {"name": name, "annotations": {"cluster.io/service-account.name": "default"}},
            "type": "cluster.io/service-account-token",
        }
        await api.create("secrets", secret)
        with trio.fail_after(60):
            while "token" not in (found := await api.get("secrets", name)).get("data", {}):
                await trio.lowlevel.checkpoint()
        token = base64.b64decode(found["data"]["token"]).decode()
        assert "exp" not in claims_of(token)
        assert await status_with(api, token) == 403


async def test_wrong_audience_issuer_account_or_form_is_refused() -> None:
    async with with_token() as (api, _, claims):
        key, private = own_key(api), claims["cluster.io"]
        account = private["serviceaccount"]
        wrong: list[Document] = [
            {"aud": ["someone-else"]},
            {"aud": ""},
            {"aud": [1]},
            {"aud": {}},
            {"aud": False},
            {"iss": "https://other.example"},
            {"iss": None},
            {"cluster.io": None},
            {"cluster.io": {**private, "namespace": "cluster-system"}},
            {"cluster.io": {**private, "namespace": ""}},
            {"cluster.io": {**private, "serviceaccount": {**account, "name": "nobody"}}},
            {"cluster.io": {**private, "serviceaccount": {**account, "uid": "another"}}},
            {"cluster.io": {**private, "serviceaccount": {"name": "default"}}},
            {"cluster.io": {**private, "pod": {"name": "p", "uid": "u"}}},
            {"cluster.io": {**private, "secret": {"name": "s", "uid": "u"}}},
            {"cluster.io": {**private, "node": {"name": "n", "uid": "u"}}},
            {"cluster.io": {**private, "pod": "p"}},
        ]
        for change in wrong:
            token = signed(
                {name: value for name, value in {**claims, **change}.items() if value is not None}, key
            )
            assert await status_with(api, token) == 401, change


async def test_token_is_bound_to_one_object_at_most() -> None:
    async with with_token() as (api, _, claims):
        made = {
            kind: await api.create(f"{kind}s", {"metadata": {"name": "bound"}}) for kind in ("secret", "node")
        }
        bound = {kind: {"name": "bound", "uid": one["metadata"]["uid"]} for kind, one in made.items()}
        private, key = claims["cluster.io"], own_key(api)
        for kind, one in bound.items():
            assert (
                await status_with(api, signed({**claims, "cluster.io": {**private, kind: one}}, key)) == 403
            )
        assert await status_with(api, signed({**claims, "cluster.io": {**private, **bound}}, key)) == 401
        await api.delete("nodes", "bound", "")
        ended = signed({**claims, "cluster.io": {**private, "node": bound["node"]}}, key)
        assert await status_with(api, ended) == 401


async def test_changed_and_cut_tokens_are_refused() -> None:
    async with with_token() as (api, token, claims):
        head, payload, signature = token.split(".")
        other = segment(json.dumps({**claims, "sub": "system:serviceaccount:default:admin"}).encode())
        for changed in (
            f"{head}.{other}.{signature}",
            f"{head}.{payload}.{signature[:-2]}",
            f"{head}.{payload}.{signature}A",
            f"{head}.{payload}.{signature}!",
            f"{head}.{payload}.{signature}=",
            f"{head}.{payload}",
            f"{head}.{payload}.",
            f"{head}.{payload}.{signature}.",
            f".{payload}.{signature}",
            f"{head}..{signature}",
            token[: len(token) // 2],
            token[1:],
            token.swapcase(),
        ):
            assert await status_with(api, changed) == 401
        # Changes the unused bits of the last character: different text, same signature.
        last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".index(signature[-1])
        twin = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[last ^ 1]
        assert await status_with(api, f"{head}.{payload}.{signature[:-1]}{twin}") == 401
        assert await status_with(api, token) == 403


async def test_key_id_of_another_key_is_refused() -> None:
    async with with_token() as (api, token, claims):
        other = new_key()
        path = api.settings.data_dir.parent / "other.pem"
        path.write_bytes(public_pem(other))
        await api.restart(service_accounts=ServiceAccountSettings(service_account_key_file=(str(path),)))
        assert await status_with(api, signed(claims, other)) == 403
        head = json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))
        assert await status_with(api, signed(claims, other, kid=head["kid"])) == 401


async def test_very_long_token_is_refused_and_the_server_continues() -> None:
    async with with_token() as (api, token, claims):
        long = signed({**claims, "padding": "x" * 30_000}, new_key())
        assert await status_with(api, long) == 401
        beyond = await api.ask("GET", "/api/v1/nodes", token=signed({**claims, "p": "x" * 80_000}, new_key()))
        assert beyond.status in (401, 431)
        assert await status_with(api, token) == 403


async def test_tokens_and_keys_are_in_no_log_and_no_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with with_token() as (api, token, claims):
        untrusted = signed(claims, new_key())
        response = await api.ask("GET", "/api/v1/nodes", token=untrusted)
        assert response.status == 401
        assert untrusted not in response.text
        refused = await api.ask("GET", "/api/v1/nodes", token=token)
        keys = load_keys(KeyFiles(api.settings.pki / "sa.key"))
        pem = (api.settings.pki / "sa.key").read_text().splitlines()[1]
        metrics = (await api.ask("GET", "/metrics")).text
        for text in (caplog.text, refused.text, metrics, repr(keys), str(keys)):
            for secret in (token, untrusted, token.split(".")[2], pem):
                assert secret not in text


async def test_deeply_nested_header_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with with_token() as (api, _, claims):
        nested = b'{"alg":"ES256","x":' + b"[" * 1000 + b"]" * 1000 + b"}"
        forged_token = f"{segment(nested)}.{segment(json.dumps(claims).encode())}.AAAA"
        assert await status_with(api, forged_token) == 401

        def load(_: object, jwt: bytes) -> object:
            """Behaves like older releases of the library, which do not catch the error."""
            return json.loads(base64.urlsafe_b64decode(jwt.split(b".")[0] + b"=="))

        monkeypatch.setattr(PyJWS, "_load", load)
        assert await status_with(api, forged_token) == 401


async def test_garbage_is_refused() -> None:
    async with with_token() as (api, token, _):
        for garbage in (
            "a.b.c",
            "....",
            "..",
            "eyJ.eyJ.eyJ",
            f"{segment(b'[]')}.{segment(b'[]')}.AAAA",
            "x" * 500,
        ):
            assert await status_with(api, garbage) == 401
        body = segment(b'{"iss":"https://kubernetes.default.svc.cluster.local"}')
        for head in (b"[]", b"{}", b"null", b'{"alg":["ES256"]}', b'{"alg":"ES256","kid":{}}', b"\xff"):
            assert await status_with(api, f"{segment(head)}.{body}.AAAA") == 401
        assert await status_with(api, token) == 403
