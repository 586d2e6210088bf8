"""Which FlowSchema a request belongs to, and how levels share the seats."""

from __future__ import annotations

from typing import Any

from rewound.actors.access.authorize import Attributes
from rewound.actors.flowcontrol.configuration import Configuration, configure
from rewound.actors.flowcontrol.initial_objects import (
    flow_schema_type,
    initial_object,
    initial_specs,
    priority_level_type,
)
from rewound.actors.identity import AUTHENTICATED, MASTERS, UNAUTHENTICATED, User
from rewound.actors.names import CLUSTER
from tests.cases import cases

ALICE = User("alice", groups=("devs", AUTHENTICATED))
NODE = User("system:node:a", groups=("system:nodes", AUTHENTICATED))


def stored(type_name: str) -> list[dict[str, Any]]:
    objects = (
        initial_object(CLUSTER, frozenset(), type_name, name)
        for name in initial_specs(CLUSTER, frozenset())[type_name]
    )
    return [{**one, "metadata": {**one["metadata"], "uid": one["metadata"]["name"]}} for one in objects]


def initial(*more: dict[str, Any]) -> Configuration:
    schemas = [*stored(flow_schema_type(CLUSTER)), *more]
    return configure(schemas, stored(priority_level_type(CLUSTER)), 600)


def account(namespace: str, name: str) -> User:
    return User(f"system:serviceaccount:{namespace}:{name}", groups=("system:serviceaccounts", AUTHENTICATED))


def of_resource(
    user: User, verb: str, group: str, resource: str, namespace: str = "", sub: str = ""
) -> Attributes:
    return Attributes(user, verb, group, "v1", resource, sub, namespace)


def of_path(user: User, path: str, verb: str = "get") -> Attributes:
    return Attributes(user, verb, path=path, is_resource=False)


@cases(
    ("request_", "schema", "level"),
    [
        (of_resource(User("a", groups=(MASTERS,)), "get", "", "pods", "x"), "exempt", "exempt"),
        (of_path(User("x", groups=(UNAUTHENTICATED,)), "/livez"), "probes", "exempt"),
        (of_path(ALICE, "/livez/ping"), "global-default", "global-default"),
        (of_resource(ALICE, "get", "", "pods", "x"), "global-default", "global-default"),
        (of_resource(NODE, "update", "", "nodes", sub="status"), "system-node-high", "node-high"),
        (of_resource(NODE, "update", "", "nodes", sub="proxy"), "system-nodes", "system"),
        (
            of_resource(NODE, "update", "coordination.cluster.io", "leases", "x"),
            "system-node-high",
            "node-high",
        ),
        (of_resource(NODE, "list", "coordination.cluster.io", "leases"), "system-nodes", "system"),
        (
            of_resource(account("cluster-system", "a"), "get", "coordination.cluster.io", "leases", "x"),
            "system-leader-election",
            "leader-election",
        ),
        (
            of_resource(account("cluster-system", "endpoint-controller"), "update", "", "endpoints", "x"),
            "endpoint-controller",
            "workload-high",
        ),
        (
            of_resource(account("cluster-system", "a"), "delete", "", "pods", "x"),
            "cluster-system-service-accounts",
            "workload-high",
        ),
        (of_resource(account("x", "a"), "delete", "", "pods", "x"), "service-accounts", "workload-low"),
        (of_resource(User("nobody"), "get", "", "pods", "x"), "catch-all", "catch-all"),
    ],
)
def test_initial_schemas_match(request_: Attributes, schema: str, level: str) -> None:
    found = initial().classify(request_)
    assert (found.name, found.level) == (schema, level)


def schema(name: str, precedence: int, **spec: Any) -> dict[str, Any]:
    rules = initial_specs(CLUSTER, frozenset())[flow_schema_type(CLUSTER)]["global-default"]["rules"]
    given = {"priorityLevelConfiguration": {"name": "workload-low"}, "matchingPrecedence": precedence}
    return {"metadata": {"name": name, "uid": name}, "spec": {**given, "rules": rules, **spec}}


def test_lower_precedence_wins_and_then_the_name() -> None:
    request = of_resource(ALICE, "get", "", "pods", "x")
    assert initial(schema("b", 7), schema("a", 8)).classify(request).name == "b"
    assert initial(schema("b", 7), schema("a", 7)).classify(request).name == "a"


def test_schema_of_a_missing_level_is_left_out() -> None:
    dangling = schema("a", 7, priorityLevelConfiguration={"name": "missing"})
    assert initial(dangling).classify(of_resource(ALICE, "get", "", "pods")).name == "global-default"


def test_mandatory_objects_are_there_when_nothing_is_stored() -> None:
    empty = configure([], [], 600)
    assert [one.name for one in empty.schemas] == ["exempt", "catch-all"]
    assert empty.levels["exempt"].exempt and empty.levels["catch-all"].seats == 600


@cases(
    ("url", "path", "expected"),
    [("/a/*", "/a/b", True), ("/a/*", "/b", False), ("/a", "/a/b", False), ("*", "/b", True)],
)
def test_paths_with_wildcards(url: str, path: str, expected: bool) -> None:
    rule = {"verbs": ["get"], "nonResourceURLs": [url]}
    subject = {"kind": "User", "user": {"name": "*"}}
    rules = [{"subjects": [subject], "nonResourceRules": [rule]}]
    found = initial(schema("mine", 7, rules=rules)).classify(of_path(ALICE, path))
    assert (found.name == "mine") is expected


def test_distinguisher_separates_users_or_namespaces() -> None:
    request = of_resource(ALICE, "get", "", "pods", "x")
    for method, expected in (("ByUser", "alice"), ("ByNamespace", "x")):
        found = initial(schema("a", 7, distinguisherMethod={"type": method})).classify(request)
        assert found.distinguisher(request) == expected
    assert initial(schema("a", 7)).classify(request).distinguisher(request) == ""


def test_levels_share_the_seats_by_their_shares_rounded_up() -> None:
    seats = {name: level.seats for name, level in initial().levels.items()}
    assert seats == {
        "exempt": 0,
        "catch-all": 13,
        "global-default": 49,
        "leader-election": 25,
        "node-high": 98,
        "system": 74,
        "workload-high": 98,
        "workload-low": 245,
    }
