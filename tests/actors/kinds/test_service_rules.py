"""Service: defaults of every type, ports, names, affinity, load balancers and traffic policies."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases


def service(**spec: Any) -> dict[str, Any]:
    whole = {"ports": [{"port": 80}], **spec}
    return {"metadata": {"name": "a"}, "spec": {k: v for k, v in whole.items() if v is not None}}


def load_balancer(**spec: Any) -> dict[str, Any]:
    return service(type="LoadBalancer", **spec)


def external_name(**spec: Any) -> dict[str, Any]:
    return service(**{"type": "ExternalName", "ports": None, "externalName": "x.example.com", **spec})


def test_create_sets_defaults(kinds: Definitions) -> None:
    stored = kinds.stored("services", service())
    assert stored["spec"] == {
        "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
    }
    assert stored["status"] == {"loadBalancer": {}}
    assert kinds.create_causes("services", service()) == []


def test_defaults_of_each_type(kinds: Definitions) -> None:
    spec = kinds.decode("services", service(type="NodePort"))["spec"]
    assert (spec["externalTrafficPolicy"], spec["internalTrafficPolicy"]) == ("Cluster", "Cluster")
    spec = kinds.decode("services", load_balancer())["spec"]
    assert spec["allocateLoadBalancerNodePorts"] is True and spec["externalTrafficPolicy"] == "Cluster"
    assert list(spec)[-2:] == ["allocateLoadBalancerNodePorts", "internalTrafficPolicy"]
    assert kinds.stored("services", external_name())["spec"] == {
        "type": "ExternalName",
        "sessionAffinity": "None",
        "externalName": "x.example.com",
    }


def test_external_name_service_drops_internal_traffic_policy(kinds: Definitions) -> None:
    stored = kinds.stored("services", external_name(internalTrafficPolicy="Local"))
    assert "internalTrafficPolicy" not in stored["spec"]


def test_target_port_defaults_to_port(kinds: Definitions) -> None:
    sent = service(ports=[{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": ""}, {"port": 82}])
    ports = kinds.decode("services", sent)["spec"]["ports"]
    assert [port["targetPort"] for port in ports] == ["http", 81, 82]


def test_client_ip_affinity_has_a_default_timeout(kinds: Definitions) -> None:
    spec = kinds.decode("services", service(sessionAffinity="ClientIP"))["spec"]
    assert spec["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}
    config = {"clientIP": {"timeoutSeconds": 5}}
    spec = kinds.decode("services", service(sessionAffinity="ClientIP", sessionAffinityConfig=config))["spec"]
    assert spec["sessionAffinityConfig"] == config
    spec = kinds.decode("services", service(sessionAffinityConfig=config))["spec"]
    assert "sessionAffinityConfig" not in spec


def with_port(**port: Any) -> dict[str, Any]:
    return service(ports=[{"port": 80, **port}])


POSITIVE = "must be greater than 0 and less than 86400"
LOAD_BALANCER_ONLY = "Forbidden: may only be used when `type` is 'LoadBalancer'"

CASES: list[tuple[dict[str, Any], str, str]] = [
    (service(ports=None), "spec.ports", "Required value"),
    (
        service(type="Magic"),
        "spec.type",
        'Unsupported value: "Magic": supported values: '
        '"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
    ),
    (
        service(sessionAffinity="Cookie"),
        "spec.sessionAffinity",
        'Unsupported value: "Cookie": supported values: "ClientIP", "None"',
    ),
    (
        service(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 0}}),
        "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
        f"Invalid value: 0: {POSITIVE}",
    ),
    (
        service(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 86401}}),
        "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
        f"Invalid value: 86401: {POSITIVE}",
    ),
    (
        with_port(port=0, targetPort=1),
        "spec.ports[0].port",
        "Invalid value: 0: must be between 1 and 65535, inclusive",
    ),
    (
        with_port(protocol="ICMP"),
        "spec.ports[0].protocol",
        'Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
    ),
    (
        with_port(targetPort=70000),
        "spec.ports[0].targetPort",
        "Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    (
        with_port(targetPort="a--b"),
        "spec.ports[0].targetPort",
        'Invalid value: "a--b": must not contain consecutive hyphens',
    ),
    (
        with_port(nodePort=30000),
        "spec.ports[0].nodePort",
        "Forbidden: may not be used when `type` is 'ClusterIP'",
    ),
    (
        service(ports=[{"port": 80}, {"name": "b", "port": 81}]),
        "spec.ports[0].name",
        "Required value",
    ),
    (
        service(ports=[{"name": "a", "port": 80}, {"name": "a", "port": 81}]),
        "spec.ports[1].name",
        'Duplicate value: "a"',
    ),
    (
        service(ports=[{"name": "a", "port": 80}, {"name": "b", "port": 80}]),
        "spec.ports[1]",
        'Duplicate value: {"protocol":"TCP","port":80}',
    ),
    (
        service(
            type="NodePort",
            ports=[
                {"name": "a", "port": 80, "nodePort": 30000},
                {"name": "b", "port": 81, "nodePort": 30000},
            ],
        ),
        "spec.ports[1].nodePort",
        "Duplicate value: 30000",
    ),
    (
        service(externalIPs=["127.0.0.1"]),
        "spec.externalIPs[0]",
        'Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
    ),
    (
        service(externalIPs=["no"]),
        "spec.externalIPs[0]",
        'Invalid value: "no": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ),
    (
        service(internalTrafficPolicy="Never"),
        "spec.internalTrafficPolicy",
        'Unsupported value: "Never": supported values: "Cluster", "Local"',
    ),
    (
        service(externalTrafficPolicy="Local"),
        "spec.externalTrafficPolicy",
        "Invalid value: \"Local\": may only be set when `type` is 'NodePort' or 'LoadBalancer'",
    ),
    (
        service(type="NodePort", externalTrafficPolicy="Never"),
        "spec.externalTrafficPolicy",
        'Unsupported value: "Never": supported values: "Cluster", "Local"',
    ),
    (
        service(type="NodePort", externalTrafficPolicy="Local", healthCheckNodePort=30000),
        "spec.healthCheckNodePort",
        "Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and "
        "`externalTrafficPolicy` is 'Local'",
    ),
    (load_balancer(externalTrafficPolicy="Local"), "spec.healthCheckNodePort", "Required value"),
    (
        load_balancer(externalTrafficPolicy="Local", healthCheckNodePort=70000),
        "spec.healthCheckNodePort",
        "Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    (service(allocateLoadBalancerNodePorts=False), "spec.allocateLoadBalancerNodePorts", LOAD_BALANCER_ONLY),
    (service(loadBalancerClass="example.com/c"), "spec.loadBalancerClass", LOAD_BALANCER_ONLY),
    (service(loadBalancerSourceRanges=["10.0.0.0/8"]), "spec.LoadBalancerSourceRanges", LOAD_BALANCER_ONLY),
    (
        load_balancer(loadBalancerSourceRanges=["10.0.0.0/8", "no"]),
        "spec.LoadBalancerSourceRanges",
        'Invalid value: "[10.0.0.0/8 no]": must be a list of IP ranges. '
        "For example, 10.240.0.0/24,10.250.0.0/24 ",
    ),
    (
        load_balancer(ports=[{"port": 10250}]),
        "spec.ports[0]",
        "Invalid value: 10250: may not expose port 10250 externally since it is used by kubelet",
    ),
    (external_name(externalName=""), "spec.externalName", "Required value"),
    (external_name(externalName="."), "spec.externalName", "Required value"),
    (
        external_name(ipFamilyPolicy="SingleStack"),
        "spec.ipFamilyPolicy",
        "Forbidden: may not be set for ExternalName services",
    ),
    (
        external_name(ipFamilies=["IPv4"]),
        "spec.ipFamilies",
        "Forbidden: may not be set for ExternalName services",
    ),
    (
        external_name(clusterIP="1.2.3.4", clusterIPs=["1.2.3.4"]),
        "spec.clusterIPs",
        "Forbidden: may not be set for ExternalName services",
    ),
    (
        service(type="NodePort", clusterIP="None", clusterIPs=["None"]),
        "spec.clusterIPs[0]",
        "Invalid value: \"None\": may not be set to 'None' for NodePort services",
    ),
    (
        load_balancer(clusterIP="None", clusterIPs=["None"]),
        "spec.clusterIPs[0]",
        "Invalid value: \"None\": may not be set to 'None' for LoadBalancer services",
    ),
]


@cases(("document", "field", "message"), CASES)
def test_create_reports_invalid_fields(kinds: Definitions, document: Any, field: str, message: str) -> None:
    assert kinds.create_causes("services", document) == [(field, message)]


@cases(
    "document",
    [
        service(clusterIP="None", clusterIPs=["None"], ports=None),
        external_name(externalName="x.example.com."),
        load_balancer(loadBalancerClass="example.com/c", loadBalancerSourceRanges=["10.0.0.0/8"]),
        load_balancer(externalTrafficPolicy="Local", healthCheckNodePort=30000),
        service(ports=[{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}]),
        service(selector={"a": "b"}, externalIPs=["1.2.3.4"], publishNotReadyAddresses=True),
    ],
)
def test_valid_services_are_accepted(kinds: Definitions, document: Any) -> None:
    assert kinds.create_causes("services", document) == []


def fields(causes: list[tuple[str, str]]) -> list[str]:
    return [field for field, _ in causes]


def test_names_and_labels_are_validated(kinds: Definitions) -> None:
    assert fields(kinds.create_causes("services", service(selector={"bad key": "v"}))) == ["spec.selector"]
    assert fields(kinds.create_causes("services", with_port(name="Bad_"))) == ["spec.ports[0].name"]
    assert fields(kinds.create_causes("services", with_port(appProtocol="a b"))) == [
        "spec.ports[0].appProtocol"
    ]
    assert fields(kinds.create_causes("services", external_name(externalName="Bad_!"))) == [
        "spec.externalName"
    ]
    assert fields(kinds.create_causes("services", load_balancer(loadBalancerClass="a b"))) == [
        "spec.loadBalancerClass"
    ]
    for name in ("1a", "a.b", "a" * 64):
        assert fields(kinds.create_causes("services", {**service(), "metadata": {"name": name}})) == [
            "metadata.name"
        ]


def test_source_ranges_annotation_is_validated(kinds: Definitions, names: Names) -> None:
    key = names.key("load-balancer-source-ranges", "service.beta")

    def annotated(document: dict[str, Any], ranges: str) -> list[tuple[str, str]]:
        metadata = {"name": "a", "annotations": {key: ranges}}
        return kinds.create_causes("services", {**document, "metadata": metadata})

    field = f"metadata.annotations[{key}]"
    assert annotated(load_balancer(), "10.0.0.0/8, 11.0.0.0/8") == annotated(load_balancer(), " ") == []
    assert annotated(service(), "10.0.0.0/8") == [(field, LOAD_BALANCER_ONLY)]
    assert fields(annotated(load_balancer(), "no")) == [field]


def test_update_may_create_and_delete_returns_the_object(kinds: Definitions) -> None:
    definition = kinds["services"]
    assert definition.strategy.allow_create_on_update and definition.deletion.returns_object
    assert definition.names.categories == ("all",) and definition.has_status
