"""Constrained impersonation (1.36): rights to make some requests as a node, a service account or another user."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rewound.actors.access.authorize import Attributes
from rewound.actors.access.impersonation import WantedIdentity, impersonate
from rewound.actors.errors import Forbidden
from rewound.actors.identity import User
from rewound.actors.names import CLUSTER
from tests.actors.access.authorization.policies import account, binding, put, rbac, role, rule, user

GROUP = CLUSTER.group("authentication")
ALICE = User("alice", groups=("system:authenticated",))
AGENT = User("system:serviceaccount:ns:agent", extra=(("authentication.cluster.io/node-name", ("n1",)),))
LIST_PODS = Attributes(ALICE, "list", "", "v1", "pods")


async def act_as(caller: User, wanted: WantedIdentity, *rules: dict[str, object], verb: str = "list") -> User:
    authorizer = rbac(defaults=False)
    put(authorizer, "clusterroles", role("r", *rules))
    put(authorizer, "clusterrolebindings", binding("r", "r", user("alice"), account("agent", "ns")))
    request = replace(LIST_PODS, user=caller, verb=verb)
    found, constraint = await impersonate(caller, wanted, authorizer, CLUSTER, request=request)
    assert constraint.startswith("impersonate:") or not any("impersonate-on" in str(one) for one in rules)
    return found


async def test_other_users_for_some_requests() -> None:
    rules = (
        rule("impersonate-on:user-info:list", "pods"),
        rule("impersonate:user-info", "users groups", GROUP, "bob ops"),
    )
    bob = await act_as(ALICE, WantedIdentity("bob", ("ops",)), *rules)
    assert (bob.name, bob.groups) == ("bob", ("ops", "system:authenticated"))
    with pytest.raises(Forbidden, match='"alice" cannot impersonate-on:user-info:delete resource "pods"'):
        await act_as(ALICE, WantedIdentity("bob"), *rules, verb="delete")
    with pytest.raises(Forbidden, match='"alice" cannot impersonate:user-info resource "users"'):
        await act_as(ALICE, WantedIdentity("carol"), *rules)
    everybody = (rules[0], rule("impersonate:user-info", "*", GROUP))
    with pytest.raises(Forbidden, match="impersonating the system:masters group is not allowed"):
        await act_as(ALICE, WantedIdentity("bob", ("system:masters",)), *everybody)


async def test_full_right_is_enough_as_before() -> None:
    bob = await act_as(ALICE, WantedIdentity("bob"), rule("impersonate", "users"))
    assert bob.name == "bob"


async def test_service_accounts_have_their_own_groups() -> None:
    rules = (
        rule("impersonate-on:serviceaccount:list", "pods"),
        rule("impersonate:serviceaccount", "serviceaccounts", GROUP),
    )
    name = "system:serviceaccount:ns:robot"
    robot = await act_as(ALICE, WantedIdentity(name), *rules)
    assert robot.groups[:2] == ("system:serviceaccounts", "system:serviceaccounts:ns")
    with pytest.raises(Forbidden, match="cannot impersonate resource"):
        await act_as(ALICE, WantedIdentity(name, ("ops",)), *rules)


async def test_agents_act_as_their_own_node() -> None:
    rules = (
        rule("impersonate-on:associated-node:list", "pods"),
        rule("impersonate:associated-node", "nodes", GROUP),
    )
    node = await act_as(AGENT, WantedIdentity("system:node:n1"), *rules)
    assert (node.name, node.groups) == ("system:node:n1", ("system:nodes", "system:authenticated"))
    with pytest.raises(Forbidden, match="cannot impersonate-on:arbitrary-node:list"):
        await act_as(AGENT, WantedIdentity("system:node:n2"), *rules)
