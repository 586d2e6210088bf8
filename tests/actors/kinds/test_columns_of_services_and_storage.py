"""Table cells of services, networking, storage, access and other kinds, computed from stored objects."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.values.times import micros_of
from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

NOW = micros_of("2020-01-01T00:01:30Z")


def cells(kinds: Definitions, plural: str, document: Any, **stored: Any) -> list[Any]:
    """The cells between name and age; `stored` replaces parts of the stored object."""
    definition = kinds[plural]
    with_fields = {**kinds.stored(plural, {"metadata": {"name": "a"}, **document}), **stored}
    return [
        column.cell(with_fields, NOW)
        for column in definition.table.columns
        if column.name not in ("Name", "Age")
    ]


PORTS = [{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP", "nodePort": 30000}]


@cases(
    ("spec", "status", "expected"),
    [
        ({}, {}, ["ClusterIP", "<none>", "<none>", "<none>", "<none>"]),
        (
            {"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ports": PORTS[:1], "selector": {"a": "b"}},
            {},
            ["ClusterIP", "10.0.0.9", "<none>", "80/TCP", "a=b"],
        ),
        (
            {"type": "NodePort", "ports": PORTS, "externalIPs": ["1.2.3.4"]},
            {},
            ["NodePort", "<none>", "1.2.3.4", "80/TCP,53:30000/UDP", "<none>"],
        ),
        ({"type": "LoadBalancer"}, {}, ["LoadBalancer", "<none>", "<pending>", "<none>", "<none>"]),
        (
            {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]},
            {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "h"}, {"ip": "1.1.1.1"}]},
            ["LoadBalancer", "<none>", "1.1.1.1,2.2.2.2,h,9.9.9.9", "<none>", "<none>"],
        ),
        (
            {"type": "ExternalName", "externalName": "x.example.com"},
            {},
            ["ExternalName", "<none>", "x.example.com", "<none>", "<none>"],
        ),
    ],
)
def test_service_cells(kinds: Definitions, spec: Any, status: Any, expected: list[str]) -> None:
    found = {"status": {"loadBalancer": status}}
    assert cells(kinds, "services", {"spec": spec}, **found) == expected


def test_ingress_cells(kinds: Definitions) -> None:
    def hosts(*names: str) -> str:
        rules = [{"host": name} if name else {} for name in names]
        return str(cells(kinds, "ingresses", {"spec": {"rules": rules}})[1])

    assert cells(kinds, "ingresses", {"spec": {}}) == ["<none>", "*", "", "80"]
    assert cells(kinds, "ingresses", {"spec": {"ingressClassName": "c", "tls": [{}]}})[::3] == [
        "c",
        "80, 443",
    ]
    assert hosts("a", "", "b", "c") == "a,b,c"
    assert hosts("a", "b", "c", "d", "e") == "a,b,c + 2 more..."


def test_ingress_class_and_network_policy_cells(kinds: Definitions) -> None:
    spec: dict[str, Any] = {"controller": "example.com/c"}
    assert cells(kinds, "ingressclasses", {"spec": spec}) == ["example.com/c", "<none>"]
    spec["parameters"] = {"apiGroup": "example.com", "kind": "K", "name": "n"}
    assert cells(kinds, "ingressclasses", {"spec": spec}) == ["example.com/c", "K.example.com/n"]
    assert cells(kinds, "networkpolicies", {}) == ["<none>"]
    selector = {"podSelector": {"matchLabels": {"a": "b"}}}
    assert cells(kinds, "networkpolicies", {"spec": selector}) == ["a=b"]
    useless = {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}}
    assert cells(kinds, "networkpolicies", {"spec": useless}) == ["<error>"]


def test_endpoint_slice_cells(kinds: Definitions) -> None:
    assert cells(kinds, "endpointslices", {"addressType": "IPv4"}) == ["IPv4", "<unset>", "<unset>"]
    whole = {
        "addressType": "IPv4",
        "ports": [{"port": 80}, {"name": "p"}],
        "endpoints": [{"addresses": ["1.1.1.1", "2.2.2.2"]}, {"addresses": ["3.3.3.3", "4.4.4.4"]}],
    }
    assert cells(kinds, "endpointslices", whole) == ["IPv4", "80,p", "1.1.1.1,2.2.2.2,3.3.3.3 + 1 more..."]


def test_persistent_volume_cells(kinds: Definitions, names: Names) -> None:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
        "storageClassName": "c",
        "claimRef": {"namespace": "n", "name": "p"},
        "hostPath": {"path": "/a"},
    }
    assert cells(kinds, "persistentvolumes", {"spec": spec}) == [
        *("1Gi", "RWO,RWX", "Retain", "Pending", "n/p", "c", "", "Filesystem"),
    ]
    key = names.key("storage-class", "volume.beta")
    going = {"name": "a", "deletionTimestamp": "2020-01-01T00:00:00Z", "annotations": {key: "old"}}
    assert cells(kinds, "persistentvolumes", {"spec": spec}, metadata=going)[3:6] == [
        "Terminating",
        "n/p",
        "old",
    ]


def test_persistent_volume_claim_cells(kinds: Definitions) -> None:
    spec = {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}}
    pending = ["Pending", "", "", "", "", "Filesystem"]
    assert cells(kinds, "persistentvolumeclaims", {"spec": spec}) == pending
    status = {"phase": "Bound", "accessModes": ["ReadOnlyMany"], "capacity": {"storage": "2Gi"}}
    bound = {"spec": {"volumeName": "v", "storageClassName": "c"}}
    assert cells(kinds, "persistentvolumeclaims", bound, status=status) == [
        *("Bound", "v", "2Gi", "ROX", "c", "Filesystem"),
    ]


def test_csi_driver_and_node_cells(kinds: Definitions) -> None:
    assert cells(kinds, "csidrivers", {}) == [True, False, False, "<unset>", False, "Persistent"]
    spec = {"tokenRequests": [{"audience": "a"}, {"audience": "b"}]}
    assert cells(kinds, "csidrivers", {"spec": spec})[3] == "a,b"
    assert cells(kinds, "csinodes", {}) == [0]
    assert cells(kinds, "csinodes", {"spec": {"drivers": [{"name": "d", "nodeID": "n"}]}}) == [1]
    spec = {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    assert cells(kinds, "volumeattachments", {"spec": spec}) == ["d", "v", "n", False]


def test_resource_quota_cells(kinds: Definitions) -> None:
    status = {"hard": {"pods": "2", "limits.cpu": "4", "cpu": "1"}, "used": {"pods": "1"}}
    assert cells(kinds, "resourcequotas", {}) == ["", ""]
    assert cells(kinds, "resourcequotas", {}, status=status) == ["cpu: 0/1, pods: 1/2", "limits.cpu: 0/4"]


def test_role_binding_cells(kinds: Definitions) -> None:
    subjects = [
        {"kind": "User", "name": "u"},
        {"kind": "Group", "name": "g"},
        {"kind": "Group", "name": "h"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
    ]
    document = {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": subjects}
    for plural in ("rolebindings", "clusterrolebindings"):
        assert cells(kinds, plural, document) == ["ClusterRole/r", "u", "g, h", "n/s"]


def test_certificate_signing_request_cells(kinds: Definitions) -> None:
    def request_cells(*types: str, certificate: str = "") -> list[Any]:
        conditions = [{"type": kind, "status": "True"} for kind in types]
        found = {"conditions": conditions, "certificate": certificate}
        spec = {"signerName": "a.b/c", "username": "u", "expirationSeconds": 3600}
        return cells(kinds, "certificatesigningrequests", {"spec": spec}, status=found)

    assert request_cells() == ["a.b/c", "u", "60m", "Pending"]
    assert request_cells("Approved", certificate="AAAA")[3] == "Approved,Issued"
    assert request_cells("Approved", "Denied", "Failed")[3] == "Denied,Failed"
    assert cells(kinds, "certificatesigningrequests", {"spec": {}})[2] == "<none>"


def test_api_service_cells(kinds: Definitions) -> None:
    assert cells(kinds, "apiservices", {"spec": {"version": "v1"}}) == ["Local", "True"]
    remote = {"spec": {"service": {"namespace": "n", "name": "s"}}}
    assert cells(kinds, "apiservices", remote) == ["n/s", "Unknown"]
    for reason, expected in (("Missing", "False (Missing)"), ("", "False")):
        found = {"conditions": [{"type": "Available", "status": "False", "reason": reason}]}
        assert cells(kinds, "apiservices", remote, status=found)[1] == expected


def test_flow_schema_and_priority_level_cells(kinds: Definitions) -> None:
    spec = {"priorityLevelConfiguration": {"name": "l"}, "distinguisherMethod": {"type": "ByUser"}}
    assert cells(kinds, "flowschemas", {"spec": spec}) == ["l", 1000, "ByUser", "?"]
    found = {"conditions": [{"type": "Dangling", "status": "False"}]}
    assert cells(kinds, "flowschemas", {"spec": {}}, status=found)[2:] == ["<none>", "False"]
    plural = "prioritylevelconfigurations"
    assert cells(kinds, plural, {"spec": {"type": "Exempt"}}) == ["Exempt", *["<none>"] * 4]
    queued = {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}
    assert cells(kinds, plural, {"spec": queued}) == ["Limited", 30, 64, 8, 50]


def test_cells_of_further_kinds(kinds: Definitions) -> None:
    assert cells(kinds, "runtimeclasses", {"handler": "h"}) == ["h"]
    for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        assert cells(kinds, plural, {}) == [0]
        assert cells(kinds, plural, {"webhooks": [{"name": "a"}, {"name": "b"}]}) == [2]
    for plural in ("roles", "clusterroles", "limitranges", "csistoragecapacities"):
        assert [column.name for column in kinds[plural].table.columns] == ["Name", "Created At"]
    assert (
        kinds["services"].table.columns[5].cell(kinds.stored("services", {"metadata": {"name": "a"}}), NOW)
        == "90s"
    )
