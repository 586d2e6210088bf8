"""TokenRequests, and requests with the tokens that they return."""

from __future__ import annotations

import stat

import pytest
import trio

from rewound.actors.admission.plugin import Admitted, AsyncPlugin, Plugin, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from rewound.actors.names import NAMES
from rewound.gateway.settings.access import ServiceAccountSettings
from rewound.server.extensions import Extensions
from tests.actors.object_store import Document
from tests.gateway.account_tokens import (
    ISSUER,
    claims_of,
    issued,
    make_account,
    request_token,
    review,
    status_with,
)
from tests.gateway.api import served
from tests.gateway.shared_server import shared


def pod(name: str = "p", **metadata: object) -> Document:
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "robot"},
    }


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
async def test_token_authenticates_as_the_account(dialect: str) -> None:
    names = NAMES[dialect]
    async with served(dialect=dialect, kubernetes_version="1.25") as api:
        account = await make_account(api)
        token = await issued(api)
        assert await status_with(api, token) == 403
        assert await status_with(api, token) == 403  # from the cache
        refused = (await api.ask("GET", "/api/v1/nodes", token=token)).expect(403)
        assert 'User "system:serviceaccount:default:robot" cannot list' in refused["message"]
        status = await review(api, token)
        assert status["user"] == {
            "username": "system:serviceaccount:default:robot",
            "uid": account["metadata"]["uid"],
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        }
        assert status["audiences"] == [ISSUER]
        claims = claims_of(token)
        now = api.clock.now() // 1_000_000
        assert claims == {
            "aud": [ISSUER],
            "exp": now + 3600,
            "iat": now,
            "iss": ISSUER,
            "nbf": now,
            "sub": "system:serviceaccount:default:robot",
            names.key_domain: {
                "namespace": "default",
                "serviceaccount": {"name": "robot", "uid": account["metadata"]["uid"]},
            },
        }


async def test_signing_key_is_readable_by_its_owner_only_and_survives_a_restart() -> None:
    async with served() as api:
        await make_account(api)
        token = await issued(api)
        key = api.settings.pki / "sa.key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        await api.restart()
        assert await status_with(api, token) == 403


async def test_token_expires_by_the_clock_of_the_server() -> None:
    async with served() as api:
        await make_account(api)
        made = (await request_token(api, spec={"expirationSeconds": 600})).expect(201)
        token = made["status"]["token"]
        assert await status_with(api, token) == 403
        api.clock.advance(659)  # the clock of another server may be a minute behind
        assert await status_with(api, token) == 403
        api.clock.advance(1)
        assert await status_with(api, token) == 401
        assert await status_with(api, token) == 401


async def test_impossible_duration_is_refused() -> None:
    async with shared() as api:
        for seconds, message in (
            (599, "may not specify a duration less than 10 minutes"),
            (2**32 + 1, "may not specify a duration larger than 2^32 seconds"),
        ):
            refused = (await request_token(api, "default", {"expirationSeconds": seconds})).expect(422)
            assert refused["message"] == (
                'TokenRequest.authentication.cluster.io "" is invalid: spec.expirationSeconds: '
                f"Invalid value: {seconds}: {message}"
            )


async def test_longest_life_of_tokens_is_limited_by_flag() -> None:
    limited = ServiceAccountSettings(service_account_max_token_expiration=3600)
    async with served(service_accounts=limited) as api:
        response = await request_token(api, "default", {"expirationSeconds": 7200})
        made = response.expect(201)
        assert made["spec"]["expirationSeconds"] == 3600
        assert response.warnings == ['299 - "requested expiration of 7200 seconds shortened to 3600 seconds"']
        claims = claims_of(made["status"]["token"])
        assert claims["exp"] - claims["iat"] == 3600


async def test_token_is_for_its_audiences_only() -> None:
    async with shared() as api:
        token = await issued(api, "default", audiences=["vault", "https://a.example"])
        assert await status_with(api, token) == 401
        assert "authenticated" not in await review(api, token)
        status = await review(api, token, "https://a.example", "b")
        assert (status["authenticated"], status["audiences"]) == (True, ["https://a.example"])
        assert "authenticated" not in await review(api, token, "b")
        own = await issued(api, "default")
        assert "authenticated" not in await review(api, own, "vault")


async def test_token_for_one_audience_of_the_server_is_not_for_another_one() -> None:
    both = ServiceAccountSettings(api_audiences=("one,two",))
    async with served(service_accounts=both) as api:
        await make_account(api)
        token = await issued(api, audiences=["one"])
        assert await status_with(api, token) == 403
        assert (await review(api, token, "two", "one"))["audiences"] == ["one"]
        for audiences in (["two"], ["two", "other"]):
            assert "authenticated" not in await review(api, token, *audiences)


async def test_token_ends_with_its_account_from_the_first_request_after_the_delete() -> None:
    async with served() as api:
        await make_account(api)
        token = await issued(api)
        assert await status_with(api, token) == 403
        await api.delete("serviceaccounts", "robot")
        assert await status_with(api, token) == 401
        await make_account(api)
        assert await status_with(api, token) == 401
        assert await status_with(api, await issued(api)) == 403


async def test_account_that_waits_for_its_finalizers_is_accepted_for_a_minute() -> None:
    async with served() as api:
        await api.create(
            "serviceaccounts", {"metadata": {"name": "robot", "finalizers": ["example.com/wait"]}}
        )
        token = await issued(api)
        await api.delete("serviceaccounts", "robot")
        assert await status_with(api, token) == 403
        api.clock.advance(59)
        assert await status_with(api, token) == 403
        api.clock.advance(2)
        assert await status_with(api, token) == 401


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
async def test_token_bound_to_a_pod_names_it_and_ends_with_it(dialect: str) -> None:
    names = NAMES[dialect]
    async with served(dialect=dialect, kubernetes_version="1.25") as api:
        await make_account(api)
        made = await api.create("pods", pod())
        reference = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": made["metadata"]["uid"]}
        token = await issued(api, boundObjectRef=reference)
        assert claims_of(token)[names.key_domain]["pod"] == {"name": "p", "uid": made["metadata"]["uid"]}
        domain = f"authentication.{names.key_domain}"
        extra = (await review(api, token))["user"]["extra"]
        assert extra == {f"{domain}/pod-name": ["p"], f"{domain}/pod-uid": [made["metadata"]["uid"]]}
        assert await status_with(api, token) == 403
        await api.delete("pods", "p", gracePeriodSeconds=0)
        assert await status_with(api, token) == 401
        await api.create("pods", pod())
        assert await status_with(api, token) == 401


async def test_token_is_bound_to_nothing_but_what_the_request_means() -> None:
    async with served() as api:
        await make_account(api)
        await make_account(api, "other")
        await api.create("pods", pod())
        right = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
        for account, change, status, message in (
            ("other", {}, 400, 'cannot bind token for serviceaccount "other" to pod running with different'),
            (
                "robot",
                {"uid": "another"},
                409,
                "the UID in the bound object reference (another) does not match",
            ),
            ("robot", {"name": "q"}, 404, 'pods "q" not found'),
            (
                "robot",
                {"apiVersion": "apps/v1"},
                400,
                "cannot bind token to object of type apps/v1, Kind=Pod",
            ),
            ("robot", {"kind": "ConfigMap"}, 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
            ("robot", {"kind": "Node"}, 400, "cannot bind token to object of type /v1, Kind=Node"),
        ):
            refused = await request_token(api, account, spec={"boundObjectRef": {**right, **change}})
            assert message in refused.expect(status)["message"]


async def test_request_is_for_the_account_in_the_path() -> None:
    async with served() as api:
        await make_account(api)
        path = f"{api.path('serviceaccounts', name='robot')}/token"
        for metadata, status in (({"name": "other"}, 422), ({"namespace": "other"}, 400)):
            (await api.ask("POST", path, {"metadata": metadata, "spec": {}})).expect(status)


async def test_token_cannot_be_bound_to_an_object_without_a_name() -> None:
    async with served() as api:
        spec = {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1"}}
        refused = (await request_token(api, "default", spec=spec)).expect(400)
        assert refused["message"] == "Name parameter required."


async def test_hourly_token_of_a_pod_volume_is_accepted_for_a_year(caplog: pytest.LogCaptureFixture) -> None:
    async with served() as api:
        await make_account(api)
        await api.create("pods", pod())
        reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
        made = (
            await request_token(api, spec={"expirationSeconds": 3607, "boundObjectRef": reference})
        ).expect(201)
        claims = claims_of(made["status"]["token"])
        assert claims["exp"] - claims["iat"] == 365 * 86400
        assert claims["cluster.io"]["warnafter"] - claims["iat"] == 3607
        assert made["spec"]["expirationSeconds"] == 3607
        assert await status_with(api, made["status"]["token"]) == 403
        assert "after its requested time" not in caplog.text
        api.clock.advance(4000)
        for _ in range(3):
            assert await status_with(api, made["status"]["token"]) == 403
        warning = "system:serviceaccount:default:robot uses a token after its requested time"
        assert caplog.text.count(warning) == 1
        other = await issued(api, expirationSeconds=3608, boundObjectRef=reference)
        assert claims_of(other)["exp"] - claims_of(other)["iat"] == 3608
        unbound = await issued(api, expirationSeconds=3607)
        assert claims_of(unbound)["exp"] - claims_of(unbound)["iat"] == 3607
        for audiences in (["vault"], [ISSUER, "vault"]):
            foreign = await issued(api, expirationSeconds=3607, boundObjectRef=reference, audiences=audiences)
            assert claims_of(foreign)["exp"] - claims_of(foreign)["iat"] == 3607


async def test_token_of_the_volume_that_admission_mounts_can_be_had() -> None:
    async with served() as api:
        made = await api.create("pods", {**pod(), "spec": {"containers": [{"name": "c", "image": "i"}]}})
        (volume,) = made["spec"]["volumes"]
        projected = volume["projected"]["sources"][0]["serviceAccountToken"]
        reference = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": made["metadata"]["uid"]}
        spec = {"expirationSeconds": projected["expirationSeconds"], "boundObjectRef": reference}
        assert await status_with(api, await issued(api, "default", **spec)) == 403


async def test_longest_life_holds_for_tokens_of_pods_too() -> None:
    limited = ServiceAccountSettings(service_account_max_token_expiration=7200)
    async with served(service_accounts=limited) as api:
        await make_account(api)
        await api.create("pods", pod())
        reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
        claims = claims_of(await issued(api, expirationSeconds=3607, boundObjectRef=reference))
        assert claims["exp"] - claims["iat"] == 7200


class _Tokens(Plugin):
    """Refuses tokens for an audience, and adds a warning to all others."""

    name = "Tokens"
    mutates = (rule(CREATE, of=(Resource("", "serviceaccounts"),), subresources=("token",)),)

    def mutate(self, request: AdmissionRequest) -> None:
        assert request.object is not None
        if "forbidden" in (request.object["spec"].get("audiences") or ()):
            raise Forbidden(request.definition.resource, request.name, "not this audience")
        request.warnings += (f"a token for {request.user}",)


class _SlowTokens(AsyncPlugin):
    """Refuses one duration, after a wait."""

    name = "SlowTokens"
    validates = _Tokens.mutates

    async def admit(self, request: AdmissionRequest) -> Admitted:
        await trio.lowlevel.checkpoint()
        assert request.object is not None
        if request.object["spec"]["expirationSeconds"] == 601:
            raise Forbidden(request.definition.resource, request.name, "not this time")
        return Admitted(warnings=("validated",))


async def test_admission_plugins_decide_about_token_requests() -> None:
    extensions = Extensions(admission_plugins=[_Tokens(), _SlowTokens()])
    async with served(extensions=extensions) as api:
        refused = (await request_token(api, "default", {"audiences": ["forbidden"]})).expect(403)
        assert refused["message"] == 'serviceaccounts "default" is forbidden: not this audience'
        refused = (await request_token(api, "default", {"expirationSeconds": 601})).expect(403)
        assert refused["message"] == 'serviceaccounts "default" is forbidden: not this time'
        response = await request_token(api, "default")
        response.expect(201)
        assert response.warnings == ['299 - "a token for admin"', '299 - "validated"']


async def test_token_request_of_a_missing_namespace_or_account_is_not_found() -> None:
    async with shared() as api:
        (await request_token(api, "nobody")).expect(404)
        path = "/api/v1/namespaces/nowhere/serviceaccounts/default/token"
        (await api.ask("POST", path, {"spec": {}})).expect(404)


async def test_ordinary_user_needs_the_right_to_create_tokens() -> None:
    async with served() as api:
        path = f"{api.path('serviceaccounts', name='default')}/token"
        refused = (await api.ask("POST", path, {"spec": {}}, token="alice-token")).expect(403)
        assert 'cannot create resource "serviceaccounts/token"' in refused["message"]


async def test_several_issuers_are_accepted_and_the_first_one_signs() -> None:
    async with served() as api:
        old = await issued(api, "default")
        both = ServiceAccountSettings(
            service_account_issuer=("https://new.example", ISSUER), api_audiences=(f"a,{ISSUER}",)
        )
        await api.restart(service_accounts=both)
        assert await status_with(api, old) == 403
        claims = claims_of(await issued(api, "default"))
        assert (claims["iss"], claims["aud"]) == ("https://new.example", ["a", ISSUER])
        alone = ServiceAccountSettings(service_account_issuer=("https://new.example",))
        await api.restart(service_accounts=alone)
        assert await status_with(api, old) == 401
