"""A change of a service's type drops fields that the new type does not use, unless the update changes them too."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions, replace


def service(**spec: Any) -> dict[str, Any]:
    whole = {"ports": [{"port": 80}], **spec}
    return {"metadata": {"name": "a"}, "spec": {k: v for k, v in whole.items() if v is not None}}


ADDRESS = {
    "clusterIP": "10.0.0.1",
    "clusterIPs": ["10.0.0.1"],
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
}
LOAD_BALANCER = service(
    **ADDRESS,
    type="LoadBalancer",
    ports=[{"port": 80, "nodePort": 30000}],
    externalTrafficPolicy="Local",
    healthCheckNodePort=30001,
    loadBalancerClass="example.com/c",
)


def with_changes(document: dict[str, Any], **spec: Any) -> dict[str, Any]:
    whole = {**document["spec"], **spec}
    return {**document, "spec": {k: v for k, v in whole.items() if v is not None}}


def test_change_to_external_name_drops_addresses(kinds: Definitions) -> None:
    new, causes = kinds.update(
        "services",
        service(**ADDRESS),
        with_changes(service(**ADDRESS), type="ExternalName", externalName="x.com"),
    )
    assert causes == []
    assert new["spec"] == {
        "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
        "type": "ExternalName",
        "sessionAffinity": "None",
        "externalName": "x.com",
    }


def test_change_to_cluster_ip_drops_load_balancer_fields(kinds: Definitions) -> None:
    after = with_changes(LOAD_BALANCER, type="ClusterIP", allocateLoadBalancerNodePorts=True)
    new, causes = kinds.update("services", LOAD_BALANCER, after)
    assert causes == []
    assert new["spec"] == {
        "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
        **ADDRESS,
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
    }


def test_change_of_type_and_of_unused_fields_is_refused(kinds: Definitions) -> None:
    after = with_changes(
        LOAD_BALANCER,
        type="ClusterIP",
        ports=[{"port": 80, "nodePort": 30005}],
        externalTrafficPolicy="Cluster",
        healthCheckNodePort=30006,
        loadBalancerClass="example.com/d",
        allocateLoadBalancerNodePorts=False,
    )
    _, causes = kinds.update("services", LOAD_BALANCER, after)
    assert {field for field, _ in causes} == {
        "spec.ports[0].nodePort",
        "spec.externalTrafficPolicy",
        "spec.healthCheckNodePort",
        "spec.loadBalancerClass",
        "spec.allocateLoadBalancerNodePorts",
    }


def test_change_to_external_name_with_another_address_is_refused(kinds: Definitions) -> None:
    after = with_changes(
        service(**ADDRESS),
        type="ExternalName",
        externalName="x.com",
        clusterIP="10.0.0.9",
        clusterIPs=["10.0.0.9"],
    )
    _, causes = kinds.update("services", service(**ADDRESS), after)
    assert [field for field, _ in causes] == ["spec.clusterIPs"]


def test_load_balancer_class_and_health_check_port_are_immutable(kinds: Definitions) -> None:
    _, causes = kinds.update(
        "services", LOAD_BALANCER, with_changes(LOAD_BALANCER, loadBalancerClass="example.com/d")
    )
    assert causes == [("spec.loadBalancerClass", 'Invalid value: "example.com/d": may not change once set')]
    _, causes = kinds.update(
        "services", LOAD_BALANCER, with_changes(LOAD_BALANCER, healthCheckNodePort=30007)
    )
    assert causes == [("spec.healthCheckNodePort", "Forbidden: field is immutable")]


def test_status_subresource_changes_the_status_and_change_of_type_clears_it(kinds: Definitions) -> None:
    found = {**LOAD_BALANCER, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    new, causes = kinds.update("services", LOAD_BALANCER, found, "status")
    assert causes == [] and new["status"] == found["status"]
    assert kinds.update("services", LOAD_BALANCER, found)[0]["status"] == {"loadBalancer": {}}
    definition = kinds["services"]
    old = kinds.stored("services", LOAD_BALANCER)
    old["status"] = found["status"]
    kept, _ = replace(definition, kinds.decode("services", LOAD_BALANCER), old)
    assert kept["status"] == found["status"]
    plain, _ = replace(
        definition, kinds.decode("services", with_changes(LOAD_BALANCER, type="ClusterIP")), old
    )
    assert plain["status"] == {"loadBalancer": {}}
    wrong = {**LOAD_BALANCER, "status": {"loadBalancer": {"ingress": [{"ip": "no"}]}}}
    assert [field for field, _ in kinds.update("services", LOAD_BALANCER, wrong, "status")[1]] == [
        "status.loadBalancer.ingress[0].ip"
    ]
