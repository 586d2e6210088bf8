"""Pod: defaults."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import CONTAINER, pod
from tests.cases import cases


def spec_of(kinds: Definitions, **spec: Any) -> dict[str, Any]:
    decoded: dict[str, Any] = kinds.decode("pods", pod(**spec))["spec"]
    return decoded


def container_of(kinds: Definitions, **parts: Any) -> dict[str, Any]:
    container: dict[str, Any] = spec_of(kinds, containers=[{**CONTAINER, **parts}])["containers"][0]
    return container


def volume_of(kinds: Definitions, **source: Any) -> dict[str, Any]:
    volume: dict[str, Any] = spec_of(kinds, volumes=[{"name": "v", **source}])["volumes"][0]
    return volume


def test_minimal_pod_gets_all_defaults_in_declared_order(kinds: Definitions) -> None:
    assert list(spec_of(kinds).items()) == [
        (
            "containers",
            [
                {
                    **CONTAINER,
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
        ),
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("securityContext", {}),
        ("schedulerName", "default-scheduler"),
        ("enableServiceLinks", True),
    ]


def test_enable_service_links_defaults_in_pods_but_not_in_templates(kinds: Definitions) -> None:
    template = {"metadata": {"name": "a"}, "template": {"spec": {"containers": [CONTAINER]}}}
    assert "enableServiceLinks" not in kinds.decode("podtemplates", template)["template"]["spec"]
    assert spec_of(kinds, enableServiceLinks=False)["enableServiceLinks"] is False


def test_defaults_keep_fields_in_declared_order(kinds: Definitions) -> None:
    container = container_of(kinds, tty=True, securityContext={}, stdin=True, resources={})
    assert list(container) == [
        *("name", "image", "resources", "terminationMessagePath", "terminationMessagePolicy"),
        *("imagePullPolicy", "securityContext", "stdin", "tty"),
    ]
    spec = spec_of(kinds, os={"name": "linux"}, preemptionPolicy="Never", overhead={"cpu": "1"})
    assert list(spec)[-4:] == ["enableServiceLinks", "preemptionPolicy", "overhead", "os"]


def test_port_protocol_defaults_to_tcp(kinds: Definitions) -> None:
    assert container_of(kinds, ports=[{"containerPort": 80}])["ports"] == [
        {"containerPort": 80, "protocol": "TCP"}
    ]


def test_host_port_defaults_to_container_port_with_host_network(kinds: Definitions) -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]
    spec = spec_of(kinds, hostNetwork=True, containers=[{**CONTAINER, "ports": ports}])
    assert spec["containers"][0]["ports"] == [
        {"hostPort": 80, "containerPort": 80, "protocol": "TCP"},
        {"hostPort": 8081, "containerPort": 81, "protocol": "TCP"},
    ]
    assert list(spec["containers"][0]["ports"][0]) == ["hostPort", "containerPort", "protocol"]


def test_probe_defaults(kinds: Definitions) -> None:
    timings = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    probe = container_of(kinds, livenessProbe={"httpGet": {"port": 80}})["livenessProbe"]
    assert probe == {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, **timings}
    probe = container_of(kinds, readinessProbe={"grpc": {"port": 5}, "periodSeconds": 7})["readinessProbe"]
    assert probe == {"grpc": {"port": 5, "service": ""}, **timings, "periodSeconds": 7}


def test_lifecycle_handler_defaults(kinds: Definitions) -> None:
    lifecycle = container_of(kinds, lifecycle={"preStop": {"httpGet": {"port": "http"}}})["lifecycle"]
    assert lifecycle == {"preStop": {"httpGet": {"path": "/", "port": "http", "scheme": "HTTP"}}}


def test_requests_default_to_limits_in_pods_but_not_in_templates(kinds: Definitions) -> None:
    limits = {"memory": "64Mi", "cpu": "1"}
    resources = container_of(kinds, resources={"limits": limits, "requests": {"cpu": "500m"}})["resources"]
    assert resources == {"limits": limits, "requests": {"cpu": "500m", "memory": "64Mi"}}
    assert list(resources["requests"]) == ["cpu", "memory"]
    init = {"name": "i", "image": "x:1", "resources": {"limits": {"cpu": "2"}}}
    assert spec_of(kinds, initContainers=[init])["initContainers"][0]["resources"]["requests"] == {"cpu": "2"}
    container = {**CONTAINER, "resources": {"limits": limits}}
    template = {"metadata": {"name": "a"}, "template": {"spec": {"containers": [container]}}}
    spec = kinds.decode("podtemplates", template)["template"]["spec"]
    assert "requests" not in spec["containers"][0]["resources"]


def test_amounts_are_rounded_up_to_a_thousandth(kinds: Definitions) -> None:
    requests = {"cpu": "1u", "memory": "1500u"}
    resources = container_of(kinds, resources={"requests": requests})["resources"]
    assert resources["requests"] == {"cpu": "1m", "memory": "2m"}
    assert spec_of(kinds, overhead={"cpu": "1n"})["overhead"] == {"cpu": "1m"}


@cases("account", [{"serviceAccountName": "x"}, {"serviceAccount": "x"}])
def test_service_account_is_in_both_fields(kinds: Definitions, account: dict[str, str]) -> None:
    spec = spec_of(kinds, **account)
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("x", "x")
    assert list(spec).index("serviceAccount") == list(spec).index("serviceAccountName") + 1


def test_service_account_name_takes_precedence_over_service_account(kinds: Definitions) -> None:
    spec = spec_of(kinds, serviceAccountName="new", serviceAccount="old")
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("new", "new")


def test_volume_without_a_source_is_an_empty_dir(kinds: Definitions) -> None:
    assert volume_of(kinds) == {"name": "v", "emptyDir": {}}


@cases(
    ("source", "expected"),
    [
        ({"secret": {"secretName": "s"}}, {"secretName": "s", "defaultMode": 420}),
        ({"configMap": {"name": "m"}}, {"name": "m", "defaultMode": 420}),
        ({"downwardAPI": {}}, {"defaultMode": 420}),
        ({"projected": {}}, {"sources": None, "defaultMode": 420}),
        ({"configMap": {"name": "m", "defaultMode": 0}}, {"name": "m", "defaultMode": 0}),
        ({"hostPath": {"path": "/x"}}, {"path": "/x", "type": ""}),
        (
            {"iscsi": {"targetPortal": "p", "iqn": "i", "lun": 0}},
            {"targetPortal": "p", "iqn": "i", "lun": 0, "iscsiInterface": "default"},
        ),
        (
            {"rbd": {"monitors": ["m"], "image": "i"}},
            {
                "monitors": ["m"],
                "image": "i",
                "pool": "rbd",
                "user": "admin",
                "keyring": "/etc/ceph/keyring",
            },
        ),
        (
            {"azureDisk": {"diskName": "d", "diskURI": "u"}},
            {
                "diskName": "d",
                "diskURI": "u",
                "cachingMode": "ReadWrite",
                "fsType": "ext4",
                "readOnly": False,
                "kind": "Shared",
            },
        ),
        (
            {"scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "x"}}},
            {
                "gateway": "g",
                "system": "s",
                "secretRef": {"name": "x"},
                "storageMode": "ThinProvisioned",
                "fsType": "xfs",
            },
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_volume_source_defaults(kinds: Definitions, source: dict[str, Any], expected: dict[str, Any]) -> None:
    (kind,) = source
    assert volume_of(kinds, **source)[kind] == expected


def test_projected_token_expires_after_an_hour_by_default(kinds: Definitions) -> None:
    sources = [{"serviceAccountToken": {"path": "token"}}]
    projected = volume_of(kinds, projected={"sources": sources})["projected"]
    assert projected["sources"] == [{"serviceAccountToken": {"expirationSeconds": 3600, "path": "token"}}]


def test_field_reference_version_and_resource_divisor_defaults(kinds: Definitions) -> None:
    items = [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]
    downward = volume_of(kinds, downwardAPI={"items": items})["downwardAPI"]
    assert downward["items"][0]["fieldRef"] == {"apiVersion": "v1", "fieldPath": "metadata.name"}
    env = [{"name": "N", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]
    assert container_of(kinds, env=env)["env"][0]["valueFrom"] == {
        "resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}
    }


def test_ephemeral_volume_claim_template_defaults(kinds: Definitions) -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"]}}
    claim = volume_of(kinds, ephemeral={"volumeClaimTemplate": template})["ephemeral"]["volumeClaimTemplate"]
    assert claim == {
        "metadata": {"creationTimestamp": None},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {}, "volumeMode": "Filesystem"},
    }


def test_obsolete_annotations_are_dropped(kinds: Definitions, names: Names) -> None:
    annotations = {names.key("init-containers", "pod.beta"): "[]", "kept": "x"}
    decoded = kinds.decode("pods", pod(metadata={"annotations": annotations}))
    assert decoded["metadata"]["annotations"] == {"kept": "x"}


def test_pod_ip_and_pod_ips_are_kept_in_step(kinds: Definitions) -> None:
    both = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}
    two = {"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}
    for sent, stored in (
        ({"podIP": "10.0.0.1"}, both),
        ({"podIPs": [{"ip": "10.0.0.1"}]}, both),
        (two, {"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}]}),
    ):
        assert kinds.decode("pods", pod(status=sent))["status"] == stored
