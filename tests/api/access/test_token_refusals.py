"""A TokenReview says why a service account token is not accepted, as in Kubernetes; a request only gets 401."""

from __future__ import annotations

import base64

from tests.api.access.test_service_account_secrets import filled_secret, make_secret
from tests.gateway.account_tokens import ISSUER, claims_of, issued, make_account, own_key, review, signed
from tests.gateway.api import Api, served


async def reason(api: Api, token: str, *audiences: str) -> str:
    status = await review(api, token, *audiences)
    assert status["user"] == {} and "authenticated" not in status
    return str(status["error"])


async def test_audience_times_and_signature() -> None:
    async with served() as api:
        await make_account(api)
        token, other = await issued(api), await issued(api, audiences=["vault", "b"])
        wrong = "is invalid for the target audiences"
        assert await reason(api, token, "x", "y") == (
            f'[invalid bearer token, token audiences ["{ISSUER}"] {wrong} ["x" "y"]]'
        )
        for _ in range(2):
            assert await reason(api, other) == (
                f'[invalid bearer token, token audiences ["vault" "b"] {wrong} ["{ISSUER}"]]'
            )
        assert await reason(api, other, ISSUER, "z") == (
            f'[invalid bearer token, token audiences ["vault" "b"] {wrong} ["{ISSUER}" "z"]]'
        )
        head, body, signature = token.split(".")
        assert await reason(api, f"{head}.{body}.{'A' * len(signature)}") == (
            "[invalid bearer token, square/go-jose: error in cryptographic primitive]"
        )
        assert await reason(api, "not.a.token") == "invalid bearer token"
        claims, now = claims_of(token), api.clock.now() // 1_000_000
        early = signed({**claims, "nbf": now + 100, "iat": now + 100}, own_key(api))
        assert await reason(api, early) == "[invalid bearer token, service account token is not valid yet]"
        future = signed({**claims, "iat": now + 100}, own_key(api))
        assert (await review(api, future))["authenticated"]  # v1.25 checks only nbf and exp
        api.clock.advance(3660)
        assert await reason(api, token) == "[invalid bearer token, service account token has expired]"


async def test_objects_that_the_token_names() -> None:
    async with served() as api:
        account = await make_account(api)
        secret = await api.create("secrets", {"metadata": {"name": "s"}})
        token = await issued(api, boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "s"})
        await api.delete("secrets", "s")
        invalidated = "[invalid bearer token, service account token has been invalidated]"
        assert await reason(api, token) == invalidated
        again = await api.create("secrets", {"metadata": {"name": "s"}})
        uids = again["metadata"]["uid"], secret["metadata"]["uid"]
        assert await reason(api, token) == (
            f"[invalid bearer token, secret UID ({uids[0]}) does not match service account secret ref claim "
            f"({uids[1]})]"
        )
        await api.delete("serviceaccounts", "robot")
        assert await reason(api, token) == '[invalid bearer token, serviceaccounts "robot" not found]'
        other = await make_account(api)
        uids = other["metadata"]["uid"], account["metadata"]["uid"]
        assert await reason(api, token) == (
            f"[invalid bearer token, service account UID ({uids[0]}) does not match claim ({uids[1]})]"
        )


async def test_token_in_a_secret() -> None:
    async with served() as api:
        await make_account(api)
        await make_secret(api)
        held = await filled_secret(api)
        token = base64.b64decode(held["data"]["token"]).decode()
        assert (await review(api, token))["authenticated"]
        held["data"]["token"] = base64.b64encode(b"another").decode()
        await api.replace("secrets", held)
        assert await reason(api, token) == "[invalid bearer token, Token does not match server's copy]"
        await api.delete("secrets", "t")
        assert await reason(api, token) == "[invalid bearer token, Token has been invalidated]"
