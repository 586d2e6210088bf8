from __future__ import annotations

import pytest

from rewound.actors.access.authentication.authenticate import ANONYMOUS_USER
from rewound.actors.access.authorization.chain import AlwaysAllow, AlwaysDeny, AuthorizerChain, SystemMasters
from rewound.actors.access.authorization.modes import parse_modes
from rewound.actors.access.authorize import Attributes, Decision, forbidden
from rewound.actors.identity import User
from rewound.actors.names import CLUSTER
from tests.actors.access.authorization.policies import rbac
from tests.cases import cases

ADMIN = User("admin", groups=("system:masters", "system:authenticated"))
ALICE = User("alice", groups=("devs", "system:authenticated"))


def path(verb: str, path: str, user: User = ALICE) -> Attributes:
    return Attributes(user, verb, path=path, is_resource=False)


def allowed(mode: str, attributes: Attributes) -> bool:
    makers = {"RBAC": lambda: rbac(CLUSTER), "AlwaysAllow": AlwaysAllow, "AlwaysDeny": AlwaysDeny}
    modes = (makers[one]() for one in parse_modes(mode) if one in makers)
    decision = AuthorizerChain([SystemMasters(), *modes]).authorize(attributes)
    assert isinstance(decision, Decision), "what is known needs no coroutine"
    return decision.allowed


@cases("mode", ["RBAC", "Node,RBAC", "AlwaysAllow", "AlwaysDeny"])
@cases("attributes", [Attributes(ADMIN, "delete", resource="nodes", name="a"), path("post", "/x", ADMIN)])
def test_system_masters_are_allowed_everything(mode: str, attributes: Attributes) -> None:
    assert allowed(mode, attributes)


@cases("mode", ["RBAC", "Node,RBAC"])
@cases("user", [ALICE, ANONYMOUS_USER])
def test_other_users_get_no_access_to_resources(mode: str, user: User) -> None:
    attributes = Attributes(user, "get", resource="configmaps", namespace="x", name="a", path="/version")
    assert not allowed(mode, attributes)


def test_modes_decide_in_order() -> None:
    secrets = Attributes(ALICE, "get", resource="secrets", namespace="x", name="s")
    assert not allowed("AlwaysDeny,RBAC", secrets) and allowed("AlwaysDeny,AlwaysAllow", secrets)
    assert not allowed("AlwaysDeny", path("get", "/healthz"))


@cases(
    ("text", "error"),
    [
        ("Rbac", "'Rbac' is not known; choose among Node, RBAC, ABAC"),
        ("", "'' is not known"),
        ("Node,RBAC,", "'' is not known"),
        ("RBAC,Node,RBAC", "RBAC occurs more than once"),
    ],
)
def test_unknown_and_repeated_modes_are_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_modes(text)


def test_always_allow_allows_anonymous_requests() -> None:
    assert allowed("AlwaysAllow", path("post", "/healthz", ANONYMOUS_USER))


@cases("open_to_all", ["/healthz", "/livez", "/readyz", "/version", "/version/"])
@cases("user", [ALICE, ANONYMOUS_USER])
def test_health_and_version_paths_are_allowed_to_everyone(user: User, open_to_all: str) -> None:
    assert allowed("RBAC", path("get", open_to_all, user))
    assert not allowed("RBAC", path("post", open_to_all, user))


@cases("discovery", ["/api", "/api/v1", "/apis", "/apis/apps/v1", "/openapi/v2"])
def test_discovery_is_allowed_to_authenticated_users_only(discovery: str) -> None:
    assert allowed("RBAC", path("get", discovery, ALICE))
    assert not allowed("RBAC", path("get", discovery, ANONYMOUS_USER))


@cases("closed", ["/", "/metrics", "/livez/ping", "/healthz/", "/apisx", "/versions"])
@cases("user", [ALICE, ANONYMOUS_USER])
def test_other_paths_are_not_allowed(user: User, closed: str) -> None:
    assert not allowed("RBAC", path("get", closed, user))


@cases(
    ("attributes", "text"),
    [
        (path("get", "/metrics"), 'forbidden: User "alice" cannot get path "/metrics"'),
        (
            Attributes(ALICE, "list", resource="configmaps", namespace="x"),
            'configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" '
            'in the namespace "x"',
        ),
        (
            Attributes(ALICE, "list", group="nope.example.com", resource="things"),
            'things.nope.example.com is forbidden: User "alice" cannot list resource "things" in API group '
            '"nope.example.com" at the cluster scope',
        ),
        (
            Attributes(ALICE, "update", resource="pods", subresource="status", namespace="x", name="p"),
            'pods "p" is forbidden: User "alice" cannot update resource "pods/status" in API group "" '
            'in the namespace "x"',
        ),
    ],
)
def test_forbidden_message_names_user_verb_and_resource(attributes: Attributes, text: str) -> None:
    assert forbidden(attributes).message == text


def test_forbidden_message_ends_with_the_reason() -> None:
    attributes = Attributes(ALICE, "get", resource="secrets", namespace="x", name="s")
    assert forbidden(attributes, "no relationship found").message.endswith(": no relationship found")
