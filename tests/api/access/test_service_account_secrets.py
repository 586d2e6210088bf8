"""Secrets of the service account token type: filled, refilled and deleted with their account."""

from __future__ import annotations

import base64

import pytest

from rewound.actors.names import NAMES
from rewound.gateway.settings.access import ServiceAccountSettings
from rewound.gateway.settings.settings import ControllerSettings
from tests.actors.object_store import Document
from tests.gateway.account_tokens import (
    claims_of,
    eventually,
    issued,
    make_account,
    own_key,
    review,
    signed,
    status_with,
)
from tests.gateway.api import Api, ApiResponse
from tests.gateway.https import certificates, served_securely


def is_filled(response: ApiResponse) -> bool:
    return response.status == 200 and "token" in (response.document.get("data") or {})


def is_gone(response: ApiResponse) -> bool:
    return response.status == 404


async def make_secret(api: Api, name: str = "t", account: str = "robot", **annotations: str) -> Document:
    names = NAMES[api.settings.dialect]
    metadata = {
        "name": name,
        "annotations": {names.key("service-account.name"): account, **annotations},
    }
    return await api.create("secrets", {"metadata": metadata, "type": names.key("service-account-token")})


async def filled_secret(api: Api, name: str = "t") -> Document:
    return (await eventually(api, api.path("secrets", name=name), is_filled)).document


def decoded(secret: Document, key: str) -> str:
    return base64.b64decode(secret["data"][key]).decode()


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
async def test_secret_gets_token_namespace_and_certificate(dialect: str) -> None:
    names = NAMES[dialect]
    async with served_securely(dialect=dialect) as api:
        account = await make_account(api)
        await make_secret(api)
        secret = await filled_secret(api)
        assert decoded(secret, "namespace") == "default"
        assert decoded(secret, "ca.crt") == (certificates(dialect) / "ca.crt").read_text()
        uid = account["metadata"]["uid"]
        assert secret["metadata"]["annotations"][names.key("service-account.uid")] == uid
        token, prefix = decoded(secret, "token"), names.key("serviceaccount")
        assert claims_of(token) == {
            "iss": names.secret_token_issuer,
            "sub": "system:serviceaccount:default:robot",
            f"{prefix}/namespace": "default",
            f"{prefix}/secret.name": "t",
            f"{prefix}/service-account.name": "robot",
            f"{prefix}/service-account.uid": uid,
        }
        api.clock.advance(10 * 365 * 86400)
        assert await status_with(api, token) == 403
        status = await review(api, token)
        assert status["user"]["username"] == "system:serviceaccount:default:robot"
        assert status["user"]["uid"] == uid
        assert "authenticated" not in await review(api, token, "another")


async def test_token_ends_with_its_secret() -> None:
    async with served_securely() as api:
        await make_account(api)
        await make_secret(api)
        token = decoded(await filled_secret(api), "token")
        assert await status_with(api, token) == 403
        await api.delete("secrets", "t")
        assert await status_with(api, token) == 401
        await make_secret(api)
        other = decoded(await filled_secret(api), "token")
        assert await status_with(api, other) == 403


async def test_secret_and_token_end_with_the_account() -> None:
    async with served_securely() as api:
        await make_account(api)
        await make_secret(api)
        token = decoded(await filled_secret(api), "token")
        assert await status_with(api, token) == 403
        await api.delete("serviceaccounts", "robot")
        assert await status_with(api, token) == 401
        await eventually(api, api.path("secrets", name="t"), is_gone)
        await make_account(api)
        assert await status_with(api, token) == 401


async def test_emptied_secret_is_filled_again_and_must_hold_the_token() -> None:
    async with served_securely() as api:
        account = await make_account(api)
        made = await make_secret(api)
        token = decoded(await filled_secret(api), "token")
        assert await status_with(api, token) == 403
        stolen = {**claims_of(token), "padding": "signed by the server, but not what the Secret holds"}
        assert await status_with(api, signed(stolen, own_key(api))) == 401
        path = api.path("secrets", name="t")
        patch = b'{"data": {"ca.crt": "", "namespace": null}}'
        headers = {"content-type": "application/merge-patch+json"}
        (await api.ask("PATCH", path, patch, headers=headers)).expect(200)
        await eventually(
            api, path, lambda response: {"namespace", "token"} <= response.document.get("data", {}).keys()
        )
        secret = (
            await eventually(api, path, lambda response: bool(response.document["data"]["ca.crt"]))
        ).document
        assert (secret["metadata"]["uid"], decoded(secret, "token")) == (made["metadata"]["uid"], token)
        assert account["metadata"]["uid"] in secret["metadata"]["annotations"].values()
        (await api.ask("PATCH", path, b'{"data": {"token": "eA=="}}', headers=headers)).expect(200)
        assert await status_with(api, token) == 401


async def test_without_lookup_tokens_outlive_their_secret() -> None:
    kept = ServiceAccountSettings(service_account_lookup=False)
    async with served_securely(service_accounts=kept) as api:
        await make_account(api)
        await make_secret(api)
        token = decoded(await filled_secret(api), "token")
        bound = await issued(api)
        await api.delete("secrets", "t")
        assert await status_with(api, token) == 403
        await api.delete("serviceaccounts", "robot")
        assert await status_with(api, token) == 403
        assert await status_with(api, bound) == 401  # bound tokens are always looked up


async def test_secret_without_its_account_is_deleted() -> None:
    async with served_securely() as api:
        await make_secret(api, "of-nobody", "ghost")
        await make_account(api)
        await make_secret(api, "of-another", **{"cluster.io/service-account.uid": "another"})
        await make_secret(api, "mine")
        await eventually(api, api.path("secrets", name="of-nobody"), is_gone)
        await eventually(api, api.path("secrets", name="of-another"), is_gone)
        await filled_secret(api, "mine")


async def test_account_loses_the_reference_to_a_deleted_secret() -> None:
    async with served_securely() as api:
        body = {"metadata": {"name": "robot"}, "secrets": [{"name": "t"}, {"name": "other"}]}
        await api.create("serviceaccounts", body)
        await make_secret(api)
        await filled_secret(api)
        await api.delete("secrets", "t")
        path = api.path("serviceaccounts", name="robot")
        await eventually(api, path, lambda response: response.document["secrets"] == [{"name": "other"}])


async def test_forged_claims_of_secret_tokens_are_refused() -> None:
    """Without a lookup: with it, only the token in the Secret is accepted."""
    claims_alone = ServiceAccountSettings(service_account_lookup=False)
    async with served_securely(service_accounts=claims_alone) as api:
        await make_account(api)
        await make_account(api, "other")
        await make_secret(api)
        claims = claims_of(decoded(await filled_secret(api), "token"))
        key, prefix = own_key(api), "cluster.io/serviceaccount"
        assert await status_with(api, signed(claims, key)) == 403
        for change in (
            {"sub": "system:serviceaccount:default:other"},
            {"sub": "robot"},
            {"sub": ""},
            {f"{prefix}/service-account.name": "other"},
            {f"{prefix}/namespace": "cluster-system"},
            {f"{prefix}/secret.name": ""},
            {f"{prefix}/service-account.uid": ""},
        ):
            assert await status_with(api, signed({**claims, **change}, key)) == 401, change


async def test_secret_is_filled_after_a_restart() -> None:
    async with served_securely() as api:
        await api.restart(controllers=ControllerSettings(controllers=("default,-serviceaccount-token",)))
        await make_account(api)
        await make_secret(api)
        await api.restart(controllers=ControllerSettings())
        await filled_secret(api)
