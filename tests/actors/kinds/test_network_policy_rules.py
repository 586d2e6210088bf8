"""NetworkPolicy: defaults of types and protocols, peers, ports, CIDR blocks, generation, and the unused status."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases


def policy(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"podSelector": {}, **spec}}


@cases(
    ("spec", "types"),
    [
        ({}, ["Ingress"]),
        ({"ingress": [{}]}, ["Ingress"]),
        ({"egress": [{}]}, ["Ingress", "Egress"]),
        ({"egress": [{}], "policyTypes": ["Egress"]}, ["Egress"]),
    ],
)
def test_policy_types_default_to_the_rules_given(kinds: Definitions, spec: Any, types: list[str]) -> None:
    stored = kinds.stored("networkpolicies", policy(**spec))
    assert stored["spec"]["policyTypes"] == types
    assert stored["status"] == {} and stored["metadata"]["generation"] == 1


def test_ports_default_to_tcp(kinds: Definitions) -> None:
    sent = policy(egress=[{"ports": [{"port": 53}, {"port": "dns", "protocol": "UDP"}, {}]}])
    assert kinds.decode("networkpolicies", sent)["spec"]["egress"][0]["ports"] == [
        {"protocol": "TCP", "port": 53},
        {"protocol": "UDP", "port": "dns"},
        {"protocol": "TCP"},
    ]
    assert kinds.create_causes("networkpolicies", sent) == []


def test_create_reports_an_invalid_pod_selector(kinds: Definitions) -> None:
    wrong = policy(podSelector={"matchExpressions": [{"key": "k", "operator": "Near"}]})
    assert kinds.create_causes("networkpolicies", wrong) == [
        (
            "spec.podSelector.matchExpressions[0].operator",
            'Invalid value: "Near": not a valid selector operator',
        )
    ]


@cases(
    ("peer", "field", "message"),
    [
        ({}, "", "Required value: must specify a peer"),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}},
            "",
            "Forbidden: may not specify both ipBlock and another peer",
        ),
        ({"ipBlock": {}}, ".ipBlock.cidr", "Required value"),
        ({"ipBlock": {"cidr": "no"}}, ".ipBlock.cidr", 'Invalid value: "no": not a valid CIDR'),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["no"]}},
            ".ipBlock.except[0]",
            'Invalid value: "no": not a valid CIDR',
        ),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}},
            ".ipBlock.except[0]",
            'Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`',
        ),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}},
            ".ipBlock.except[0]",
            'Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`',
        ),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["fd00::/64"]}},
            ".ipBlock.except[0]",
            'Invalid value: "fd00::/64": must be a strict subset of `cidr`',
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "k", "operator": "In"}]}},
            ".namespaceSelector.matchExpressions[0].values",
            "Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
    ],
)
def test_create_reports_invalid_peers(kinds: Definitions, peer: Any, field: str, message: str) -> None:
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        assert kinds.create_causes("networkpolicies", policy(**{direction: [{peers: [peer]}]})) == [
            (f"spec.{direction}[0].{peers}[0]{field}", message)
        ]


def test_peer_may_have_pod_selector_and_namespace_selector(kinds: Definitions) -> None:
    both = policy(ingress=[{"from": [{"podSelector": {}, "namespaceSelector": {}}]}])
    assert kinds.create_causes("networkpolicies", both) == []


@cases(
    ("port", "expected"),
    [
        ({"port": 0}, [("port", "Invalid value: 0: must be between 1 and 65535, inclusive")]),
        (
            {"protocol": "ICMP"},
            [("protocol", 'Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"')],
        ),
        (
            {"port": 20, "endPort": 10},
            [("endPort", "Invalid value: 20: must be greater than or equal to `port`")],
        ),
        (
            {"port": 20, "endPort": 70000},
            [("endPort", "Invalid value: 70000: must be between 1 and 65535, inclusive")],
        ),
        (
            {"endPort": 10},
            [("endPort", "Invalid value: 10: may not be specified when `port` is not specified")],
        ),
        (
            {"port": "dns", "endPort": 10},
            [("endPort", "Invalid value: 10: may not be specified when `port` is non-numeric")],
        ),
        (
            {"port": "80"},
            [("port", 'Invalid value: "80": must contain at least one letter (a-z)')],
        ),
        ({"port": 20, "endPort": 20}, []),
    ],
)
def test_create_reports_invalid_ports(kinds: Definitions, port: Any, expected: list[tuple[str, str]]) -> None:
    assert kinds.create_causes("networkpolicies", policy(ingress=[{"ports": [port]}])) == [
        (f"spec.ingress[0].ports[0].{field}", message) for field, message in expected
    ]


def test_create_reports_invalid_policy_types(kinds: Definitions) -> None:
    assert kinds.create_causes("networkpolicies", policy(policyTypes=["Egress", "Sideways"])) == [
        ("spec.policyTypes[1]", 'Unsupported value: "Sideways": supported values: "Ingress", "Egress"')
    ]
    assert kinds.create_causes("networkpolicies", policy(policyTypes=["Egress"] * 3)) == [
        (
            "spec.policyTypes",
            'Invalid value: []networking.PolicyType{"Egress", "Egress", "Egress"}: '
            "may not specify more than two policyTypes",
        )
    ]


def test_update_reports_errors_twice_and_increments_the_generation(kinds: Definitions) -> None:
    wrong = policy(policyTypes=["Sideways"])
    _, causes = kinds.update("networkpolicies", policy(), wrong)
    assert [field for field, _ in causes] == ["spec.policyTypes[0]"] * 2
    new, _ = kinds.update("networkpolicies", policy(), policy(egress=[{}]))
    assert new["metadata"]["generation"] == 2


def test_status_is_stored_as_created_and_can_only_be_cleared(kinds: Definitions) -> None:
    condition = {
        "type": "Accepted",
        "status": "True",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
        "reason": "Well",
        "message": "",
    }
    found = {**policy(), "status": {"conditions": [condition]}}
    assert kinds.stored("networkpolicies", found)["status"] == found["status"]
    assert kinds.update("networkpolicies", policy(), found)[0]["status"] == found["status"]
    assert kinds.update("networkpolicies", found, policy())[0]["status"] == found["status"]
    assert kinds.update("networkpolicies", found, policy(), "status")[0]["status"] == {}
    new, causes = kinds.update("networkpolicies", policy(), found, "status")
    assert causes == [] and new["status"] == {}
