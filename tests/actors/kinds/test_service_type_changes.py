"""A service that changes its type loses fields that the new type does not use, unless they were changed too."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.declared import Declared, replace


def service(**spec: Any) -> dict[str, Any]:
    whole = {"ports": [{"port": 80}], **spec}
    return {"metadata": {"name": "a"}, "spec": {k: v for k, v in whole.items() if v is not None}}


ADDRESS = {
    "clusterIP": "10.0.0.1",
    "clusterIPs": ["10.0.0.1"],
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
}
BALANCED = service(
    **ADDRESS,
    type="LoadBalancer",
    ports=[{"port": 80, "nodePort": 30000}],
    externalTrafficPolicy="Local",
    healthCheckNodePort=30001,
    loadBalancerClass="example.com/c",
)


def changed(document: dict[str, Any], **spec: Any) -> dict[str, Any]:
    whole = {**document["spec"], **spec}
    return {**document, "spec": {k: v for k, v in whole.items() if v is not None}}


def test_to_a_name(kinds: Declared) -> None:
    new, causes = kinds.replaced(
        "services", service(**ADDRESS), changed(service(**ADDRESS), type="ExternalName", externalName="x.com")
    )
    assert causes == []
    assert new["spec"] == {
        "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
        "type": "ExternalName",
        "sessionAffinity": "None",
        "externalName": "x.com",
    }


def test_to_a_plain_address(kinds: Declared) -> None:
    after = changed(BALANCED, type="ClusterIP", allocateLoadBalancerNodePorts=True)
    new, causes = kinds.replaced("services", BALANCED, after)
    assert causes == []
    assert new["spec"] == {
        "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
        **ADDRESS,
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
    }


def test_what_was_changed_too_is_refused(kinds: Declared) -> None:
    after = changed(
        BALANCED,
        type="ClusterIP",
        ports=[{"port": 80, "nodePort": 30005}],
        externalTrafficPolicy="Cluster",
        healthCheckNodePort=30006,
        loadBalancerClass="example.com/d",
        allocateLoadBalancerNodePorts=False,
    )
    _, causes = kinds.replaced("services", BALANCED, after)
    assert {field for field, _ in causes} == {
        "spec.ports[0].nodePort",
        "spec.externalTrafficPolicy",
        "spec.healthCheckNodePort",
        "spec.loadBalancerClass",
        "spec.allocateLoadBalancerNodePorts",
    }


def test_a_name_with_another_address_is_refused(kinds: Declared) -> None:
    after = changed(
        service(**ADDRESS),
        type="ExternalName",
        externalName="x.com",
        clusterIP="10.0.0.9",
        clusterIPs=["10.0.0.9"],
    )
    _, causes = kinds.replaced("services", service(**ADDRESS), after)
    assert [field for field, _ in causes] == ["spec.clusterIPs"]


def test_what_stays_with_a_load_balancer(kinds: Declared) -> None:
    _, causes = kinds.replaced("services", BALANCED, changed(BALANCED, loadBalancerClass="example.com/d"))
    assert causes == [("spec.loadBalancerClass", 'Invalid value: "example.com/d": may not change once set')]
    _, causes = kinds.replaced("services", BALANCED, changed(BALANCED, healthCheckNodePort=30007))
    assert causes == [("spec.healthCheckNodePort", "Forbidden: field is immutable")]


def test_status_has_its_own_path_and_goes_with_the_type(kinds: Declared) -> None:
    found = {**BALANCED, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    new, causes = kinds.replaced("services", BALANCED, found, "status")
    assert causes == [] and new["status"] == found["status"]
    assert kinds.replaced("services", BALANCED, found)[0]["status"] == {"loadBalancer": {}}
    definition = kinds["services"]
    old = kinds.stored("services", BALANCED)
    old["status"] = found["status"]
    kept, _ = replace(definition, kinds.decode("services", BALANCED), old)
    assert kept["status"] == found["status"]
    plain, _ = replace(definition, kinds.decode("services", changed(BALANCED, type="ClusterIP")), old)
    assert plain["status"] == {"loadBalancer": {}}
    wrong = {**BALANCED, "status": {"loadBalancer": {"ingress": [{"ip": "no"}]}}}
    assert [field for field, _ in kinds.replaced("services", BALANCED, wrong, "status")[1]] == [
        "status.loadBalancer.ingress[0].ip"
    ]
