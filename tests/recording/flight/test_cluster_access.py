"""A recording asks the recorded cluster who somebody is and what they may read, and refuses without an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from rewound.actors.access.authentication.authenticate import Authenticated, Refused
from rewound.actors.access.authorize import ALLOWED, Attributes, Authorizer, Decision, Rules, Verdict
from rewound.actors.identity import User
from rewound.actors.names import NAMES
from rewound.client.credentials import Credential, FixedCredential, bearer
from rewound.client.streaming import StreamingSession
from rewound.client.target import Target
from rewound.recording.flight.cluster_access import (
    CA_SECONDS,
    RIGHT_SECONDS,
    ClusterAccess,
    ClusterAuthorizer,
)
from tests.cases import cases
from tests.gateway.api import ADMIN, ALICE, Api, served
from tests.recording.record.recording import CountingSession, session_to

ALICE_THERE = User("alice", "2", ("devs", "system:authenticated"))
NAMES_HERE = NAMES["cluster"]


def reading(verb: str, resource: str, **more: Any) -> Attributes:
    return Attributes(ALICE_THERE, verb, "", "v1", resource, namespace="shop", **more)


@asynccontextmanager
async def access_to(
    api: Api, folder: Path, token: str = ADMIN, **options: bool
) -> AsyncIterator[tuple[ClusterAccess, CountingSession]]:
    session = session_to(api, token)
    try:
        yield ClusterAccess(session, NAMES_HERE, folder / "ca.crt", with_secrets=False, **options), session
    finally:
        await session.aclose()


async def decided(access: ClusterAccess, attributes: Attributes) -> Decision:
    """The decision of the first authorizer that has an opinion."""
    for one in access.authorizers:
        found = one.authorize(attributes)
        decision = found if isinstance(found, Decision) else await found
        if decision.verdict is not Verdict.NO_OPINION:
            return decision
    raise AssertionError("nobody decided")


async def let_alice(api: Api, *verbs: str, resources: tuple[str, ...] = ("configmaps",)) -> None:
    role = {"rules": [{"apiGroups": [""], "resources": list(resources), "verbs": list(verbs)}]}
    binding = {
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.cluster.io"}],
        "roleRef": {"kind": "Role", "name": "reader", "apiGroup": "rbac.authorization.cluster.io"},
    }
    await api.create("namespaces", {"metadata": {"name": "shop"}})
    path = "/apis/rbac.authorization.cluster.io/v1/namespaces/shop"
    for resource, body, name in (("roles", role, "reader"), ("rolebindings", binding, "alice")):
        (await api.ask("POST", f"{path}/{resource}", {"metadata": {"name": name}, **body})).expect(201)


async def test_a_token_of_the_cluster_names_its_user(tmp_path: Path) -> None:
    async with served() as api, access_to(api, tmp_path) as (access, _):
        found = access.tokens.authenticate(ALICE.encode(), ())
        assert isinstance(found, Awaitable)
        assert await found == Authenticated(ALICE_THERE)
        unknown = access.tokens.authenticate(b"somebody's", ())
        assert isinstance(unknown, Awaitable)
        assert isinstance(await unknown, Refused)


async def test_users_read_what_their_roles_allow_in_the_cluster(tmp_path: Path) -> None:
    async with served() as api, access_to(api, tmp_path) as (access, _):
        await let_alice(api, "get", "list")
        assert (await decided(access, reading("list", "configmaps"))).allowed
        elsewhere = Attributes(ALICE_THERE, "list", "", "v1", "configmaps", namespace="default")
        for refused in (elsewhere, reading("list", "secrets"), reading("watch", "configmaps")):
            assert (await decided(access, refused)).verdict is Verdict.DENY


async def test_history_needs_get_and_list_of_the_resource(tmp_path: Path) -> None:
    async with served() as api, access_to(api, tmp_path) as (access, _):
        await let_alice(api, "get")
        history = reading("get", "configmaps", subresource="history")
        assert (await decided(access, reading("get", "configmaps"))).allowed
        assert (await decided(access, history)).verdict is Verdict.DENY
    async with served() as api, access_to(api, tmp_path) as (access, _):
        await let_alice(api, "get", "list")
        for subresource in ("history", "blame"):
            asked = reading("get", "configmaps", subresource=subresource, name="web")
            assert (await decided(access, asked)).allowed


class Remembering:
    """Allows everything, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []

    def authorize(self, attributes: Attributes) -> Decision:
        self.asked.append((attributes.verb, attributes.resource, attributes.subresource))
        return ALLOWED

    async def rules(self, user: User, namespace: str) -> Rules:
        return Rules()


@cases(
    ("with_secrets", "asked"),
    [
        (False, [("get", "secrets", ""), ("list", "secrets", "")]),
        (True, [("rewind", "secrets", "")]),
    ],
)
def test_the_past_of_secrets_needs_rewind_only_where_values_are_recorded(
    with_secrets: bool, asked: list[tuple[str, str, str]]
) -> None:
    cluster = Remembering()
    one: Authorizer = ClusterAuthorizer(cluster, with_secrets=with_secrets)
    assert one.authorize(reading("rewind", "secrets")) == ALLOWED
    assert cluster.asked == asked


async def test_rights_are_cached_for_seconds(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with served() as api, access_to(api, tmp_path) as (access, session):
        await let_alice(api, "list")
        for _ in range(3):
            assert (await decided(access, reading("list", "configmaps"))).allowed
        assert len(session.sent) == 1
        path = "/apis/rbac.authorization.cluster.io/v1/namespaces/shop/rolebindings/alice"
        (await api.ask("DELETE", path)).expect(200)
        assert (await decided(access, reading("list", "configmaps"))).allowed
        await trio.sleep(RIGHT_SECONDS + 1)
        assert not (await decided(access, reading("list", "configmaps"))).allowed


async def test_a_cluster_that_cannot_be_asked_refuses_all_but_masters(tmp_path: Path) -> None:
    listener = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener[0].socket.getsockname()[1]
    await listener[0].aclose()
    target = Target(f"http://127.0.0.1:{port}", FixedCredential(Credential(bearer(ADMIN))), "a test")
    session = StreamingSession(target)
    access = ClusterAccess(session, NAMES_HERE, tmp_path / "ca.crt", with_secrets=False)
    decision = await decided(access, reading("list", "configmaps"))
    assert decision.verdict is Verdict.DENY and "cannot reach" in decision.error
    found = access.tokens.authenticate(ALICE.encode(), ())
    assert isinstance(found, Awaitable)
    assert isinstance(await found, Refused)
    master = Attributes(User("root", "", ("system:masters",)), "list", "", "v1", "secrets")
    assert (await decided(access, master)).allowed
    await session.aclose()


async def test_a_recorder_without_the_right_to_ask_says_which_role_it_needs(tmp_path: Path) -> None:
    async with served() as api, access_to(api, tmp_path, ALICE) as (access, _):
        decision = await decided(access, reading("list", "configmaps"))
        assert decision.verdict is Verdict.DENY and "system:auth-delegator" in decision.error


async def test_the_ca_of_client_certificates_is_that_of_the_cluster(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    async with served() as api, access_to(api, tmp_path) as (access, _), trio.open_nursery() as nursery:
        await access.begin()
        nursery.start_soon(access.run)
        assert not (tmp_path / "ca.crt").exists()
        path = "/api/v1/namespaces/cluster-system/configmaps"
        body = {"metadata": {"name": "extension-apiserver-authentication"}, "data": {"client-ca-file": pem}}
        (await api.ask("POST", path, body)).expect(201)
        await trio.sleep(CA_SECONDS + 1)
        assert (tmp_path / "ca.crt").read_text() == pem
        nursery.cancel_scope.cancel()
