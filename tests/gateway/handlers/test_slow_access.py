"""Authenticators and authorizers that wait for another service delay only the requests that need them."""

from __future__ import annotations

from collections.abc import Awaitable

import trio
from msgspec.structs import astuple

from rewound.actors.access.authentication.authenticate import Authenticated
from rewound.actors.access.authorize import ALLOWED, NO_OPINION, Attributes, Decision, Rules, Verdict
from rewound.actors.identity import User
from rewound.server.extensions import Extensions
from tests.gateway.api import ADMIN, ALICE, Api, ApiResponse, config_map, served

PATH = "/api/v1/namespaces/default/configmaps"
BOB = User("bob", groups=("system:masters",), extra=(("scopes", ("all",)),))


class Provider:
    """A token method that waits until the test releases it; it authenticates `bob-...` tokens as bob, and no others."""

    def __init__(self) -> None:
        self.called = trio.Event()
        self.released = trio.Event()

    async def authenticate(self, token: bytes, audiences: tuple[str, ...]) -> Authenticated | None:
        self.called.set()
        await self.released.wait()
        return Authenticated(BOB, audiences=audiences) if token.startswith(b"bob-") else None


class Webhook:
    """An authorizer that waits for requests of alice, and has no opinion on other users."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.called = trio.Event()
        self.released = trio.Event()
        self.seen: list[Attributes] = []

    def authorize(self, attributes: Attributes) -> Decision | Awaitable[Decision]:
        return self._ask(attributes) if attributes.user.name == "alice" else NO_OPINION

    async def _ask(self, attributes: Attributes) -> Decision:
        self.seen.append(attributes)
        self.called.set()
        await self.released.wait()
        return self.decision

    async def rules(self, user: User, namespace: str) -> Rules:
        return Rules()


async def collect_response(api: Api, token: str, responses: list[ApiResponse]) -> None:
    responses.append(await api.ask("GET", PATH, token=token))


async def test_slow_authenticator_delays_no_other_request() -> None:
    provider = Provider()
    responses: list[ApiResponse] = []
    async with served(extensions=Extensions(token_methods=[provider])) as api:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect_response, api, "bob-1", responses)
            nursery.start_soon(collect_response, api, "nobody", responses)
            await provider.called.wait()
            assert (await api.ask("GET", PATH, token=ADMIN)).status == 200
            assert (await api.ask("POST", PATH, config_map("a"), token=ADMIN)).status == 201
            assert responses == []
            provider.released.set()
        assert sorted(response.status for response in responses) == [200, 401]


async def test_slow_authorizer_delays_no_other_request() -> None:
    webhook = Webhook(ALLOWED)
    responses: list[ApiResponse] = []
    async with served(extensions=Extensions(authorizers=[webhook])) as api:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect_response, api, ALICE, responses)
            await webhook.called.wait()
            assert (await api.ask("GET", PATH, token=ADMIN)).status == 200
            assert responses == []
            webhook.released.set()
        assert [response.status for response in responses] == [200]
    [seen] = webhook.seen
    assert astuple(seen)[1:10] == ("list", "", "v1", "configmaps", "", "default", "", PATH, True)
    assert seen.user == User("alice", "2", ("devs", "system:authenticated"))


async def test_denial_ends_the_chain_and_its_reason_is_in_the_403() -> None:
    first, second = Webhook(Decision(Verdict.DENY, "not on a Sunday")), Webhook(ALLOWED)
    first.released.set()
    async with served(extensions=Extensions(authorizers=[first, second])) as api:
        status = (await api.ask("GET", PATH, token=ALICE)).expect(403)
        assert status["message"].endswith('in the namespace "default": not on a Sunday')
        assert second.seen == []


async def test_reasons_of_all_authorizers_are_in_the_403() -> None:
    authorizers = [Webhook(Decision(Verdict.NO_OPINION, reason)) for reason in ("no such team", "no badge")]
    for authorizer in authorizers:
        authorizer.released.set()
    async with served(extensions=Extensions(authorizers=authorizers)) as api:
        status = (await api.ask("GET", PATH, token=ALICE)).expect(403)
        assert status["message"].endswith(": no such team\nno badge")


async def test_apply_and_put_wait_for_the_create_decision() -> None:
    webhook = Webhook(ALLOWED)
    webhook.released.set()
    lease = "/apis/coordination.cluster.io/v1/namespaces/default/leases/l"
    async with served(extensions=Extensions(authorizers=[webhook])) as api:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        headers = {"content-type": "application/apply-patch+yaml"}
        query = {"fieldManager": "m"}
        applied = await api.ask("PATCH", f"{PATH}/a", body, token=ALICE, headers=headers, **query)
        assert applied.status == 201
        put = await api.ask("PUT", lease, {"metadata": {"name": "l"}, "spec": {}}, token=ALICE)
        assert put.status == 201
    assert [(seen.verb, seen.version, seen.resource, seen.name) for seen in webhook.seen] == [
        ("patch", "v1", "configmaps", "a"),
        ("create", "v1", "configmaps", "a"),
        ("update", "v1", "leases", "l"),
        ("create", "v1", "leases", "l"),
    ]


async def test_reviews_wait_for_slow_access_checks() -> None:
    provider, webhook = Provider(), Webhook(Decision(Verdict.DENY, "not on a Sunday"))
    provider.released.set()
    webhook.released.set()
    async with served(extensions=Extensions([provider], [webhook])) as api:
        spec = {"token": "bob-1", "audiences": ["vault"]}
        path = "/apis/authentication.cluster.io/v1/tokenreviews"
        review = (await api.ask("POST", path, {"spec": spec})).expect(201)
        groups = ["system:masters", "system:authenticated"]
        who = {"username": "bob", "groups": groups, "extra": {"scopes": ["all"]}}
        assert review["status"] == {"authenticated": True, "user": who, "audiences": ["vault"]}
        pods = {"verb": "get", "version": "v1", "resource": "pods", "namespace": "default"}
        path = "/apis/authorization.cluster.io/v1/subjectaccessreviews"
        spec = {"user": "alice", "resourceAttributes": pods}
        review = (await api.ask("POST", path, {"spec": spec})).expect(201)
        assert review["status"] == {"allowed": False, "denied": True, "reason": "not on a Sunday"}
        assert astuple(webhook.seen[-1])[1:5] == ("get", "", "v1", "pods")
