"""Pods of later versions: what their fields may have, what a gate that is off drops, and what updates may change."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Causes, Definitions, create, replace
from tests.actors.kinds.pods import CONTAINER, LABEL, pod

NEWEST = "1.36"


@cache
def kinds(version: str, gates: str = "") -> Definitions:
    return Definitions(built_in(KUBERNETES, choose_release(version, gates)))


def created(version: str, gates: str = "", **parts: Any) -> tuple[Object, Causes]:
    definition = kinds(version, gates)["pods"]
    return create(definition, definition.schema.decode_object(pod(**parts)).object)


def updated(version: str, old: Object, subresource: str = "", **spec: Any) -> tuple[Object, Causes]:
    definition = kinds(version)["pods"]
    sent = {**old, "metadata": dict(old["metadata"]), "spec": {**old["spec"], **spec}}
    return replace(definition, sent, old, subresource)


def init(**parts: Any) -> list[dict[str, Any]]:
    return [{"name": "i", "image": "img:1", **parts}]


def main(**parts: Any) -> list[dict[str, Any]]:
    return [{**CONTAINER, **parts}]


PROBE = {"exec": {"command": ["x"]}}
CASES = [
    # Sidecars
    ("1.27", {"initContainers": init(livenessProbe=PROBE)}, "may not be set for init containers"),
    (
        "1.28",
        {"initContainers": init(livenessProbe=PROBE)},
        "may not be set for init containers without restartPolicy=Always",
    ),
    ("1.29", {"initContainers": init(restartPolicy="Always", livenessProbe=PROBE)}, None),
    ("1.33", {"initContainers": init(restartPolicy="Never")}, 'supported values: "Always"'),
    ("1.33", {"containers": main(restartPolicy="Always")}, "may not be set for non-init containers"),
    ("1.34", {"containers": main(restartPolicy="Always")}, None),
    # Restart rules
    (
        NEWEST,
        {"containers": main(restartPolicy="Sometimes")},
        'supported values: "Always", "Never", "OnFailure"',
    ),
    (NEWEST, {"containers": main(restartPolicyRules=[{"action": "Restart"}])}, "must specify restartPolicy"),
    (
        NEWEST,
        {"containers": main(restartPolicy="Never", restartPolicyRules=[{"action": "Restart"}])},
        "exitCodes: Required value: must be specified",
    ),
    # Lifecycle
    (
        "1.31",
        {"containers": main(lifecycle={"preStop": {"sleep": {"seconds": 0}}})},
        "must be greater than 0 and less than terminationGracePeriodSeconds (30)",
    ),
    (NEWEST, {"containers": main(lifecycle={"preStop": {"sleep": {"seconds": 0}}})}, None),
    (NEWEST, {"containers": main(lifecycle={"preStop": {"sleep": {"seconds": 31}}})}, "must be non-negative"),
    # Resources
    (
        "1.26",
        {"containers": main(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})},
        "must be less than or equal to cpu limit",
    ),
    (
        "1.27",
        {"containers": main(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})},
        "must be less than or equal to cpu limit of 1",
    ),
    (
        NEWEST,
        {"resources": {"limits": {"cpu": "1"}}, "containers": main(resources={"limits": {"cpu": "2"}})},
        "must be less than or equal to pod limits of 1",
    ),
    (NEWEST, {"resources": {"requests": {"pods": "1"}}}, 'supported values: "cpu", "hugepages-", "memory"'),
    (
        NEWEST,
        {"containers": main(resizePolicy=[{"resourceName": "x", "restartPolicy": "y"}])},
        '"cpu", "memory"',
    ),
    # Claims
    (
        NEWEST,
        {"containers": main(resources={"claims": [{"name": "g"}]})},
        'Not found: "g": must be one of the names in pod.spec.resourceClaims which is empty',
    ),
    (
        NEWEST,
        {"resourceClaims": [{"name": "g"}]},
        'Invalid value: {"Name":"g","ResourceClaimName":null,"ResourceClaimTemplateName":null}: must specify',
    ),
    # Environment and DNS
    ("1.31", {"containers": main(env=[{"name": "1 a"}])}, "must not start with a digit"),
    (NEWEST, {"containers": main(env=[{"name": "1 a"}])}, None),
    (NEWEST, {"containers": main(env=[{"name": "a="}])}, "printable ASCII characters other than '='"),
    ("1.32", {"dnsConfig": {"searches": ["a_b"]}}, "a lowercase RFC 1123 subdomain"),
    (NEWEST, {"dnsConfig": {"searches": ["a_b", "."]}}, None),
    ("1.29", {"hostAliases": [{"ip": "x"}]}, "spec.hostAliases.ip: Invalid value"),
    ("1.30", {"hostAliases": [{"ip": "x"}]}, "spec.hostAliases[0].ip: Invalid value"),
    (
        NEWEST,
        {
            "containers": main(
                env=[{"name": "a", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}}]
            )
        },
        'Not found: "v"',
    ),
    # Scheduling
    (
        NEWEST,
        {"schedulingGates": [{"name": "g"}], "nodeName": "n"},
        "cannot be set until all schedulingGates",
    ),
    (NEWEST, {"schedulingGates": [{"name": "g"}, {"name": "g"}]}, 'Duplicate value: "g"'),
    (
        NEWEST,
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        'Invalid value: "b": value must be empty',
    ),
    (NEWEST, {"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]}, 'values: "Equal", "Exists"'),
    # Security
    (
        "1.29",
        {"securityContext": {"sysctls": [{"name": "net.a", "value": "1"}]}, "hostNetwork": True},
        "hostNetwork",
    ),
    ("1.28", {"securityContext": {"sysctls": [{"name": "net.a", "value": "1"}]}, "hostNetwork": True}, None),
    (
        NEWEST,
        {"securityContext": {"appArmorProfile": {"type": "Localhost"}}},
        "must be set when AppArmor type",
    ),
    (NEWEST, {"securityContext": {"supplementalGroupsPolicy": "x"}}, '"Merge", "Strict"'),
    (NEWEST, {"securityContext": {"seLinuxChangePolicy": "MountOption"}}, 'supported values: "Recursive"'),
    (NEWEST, {"containers": main(securityContext={"procMount": "Unmasked"})}, "`hostUsers` must be false"),
    (NEWEST, {"hostUsers": False, "containers": main(securityContext={"procMount": "Unmasked"})}, None),
    (NEWEST, {"hostUsers": False, "hostPID": True}, "when `hostUsers` is false"),
    # Mounts and volumes
    (
        NEWEST,
        {
            "volumes": [{"name": "v"}],
            "containers": main(
                volumeMounts=[{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Enabled"}]
            ),
        },
        "may only be specified when readOnly is true",
    ),
    (NEWEST, {"volumes": [{"name": "v", "image": {}}]}, "spec.volumes[0].image.reference: Required value"),
    (NEWEST, {"hostnameOverride": "a", "hostNetwork": True}, "may not be specified when hostNetwork is true"),
    # Texts
    (
        "1.25",
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        'core.Toleration{Key:"a", Operator:"Exists", Value:"b", Effect:"", TolerationSeconds:(*int64)(nil)}: value',
    ),
    ("1.26", {"hostname": "a.b"}, LABEL),
    ("1.27", {"hostname": "a.b"}, "must not contain dots"),
]


@pytest.mark.parametrize(("version", "spec", "refused"), CASES)
def test_rules_of_each_version(version: str, spec: dict[str, Any], refused: str | None) -> None:
    _, causes = created(version, **spec)
    texts = [f"{field}: {text}" for field, text in causes]
    if refused is None:
        assert texts == []
    else:
        assert len([text for text in texts if refused in text]) == 1, texts


def test_fields_of_gates_that_are_off_are_dropped() -> None:
    lifecycle = {"stopSignal": "SIGTERM"}
    sent = {"containers": main(lifecycle=lifecycle), "os": {"name": "linux"}}
    assert "lifecycle" not in created(NEWEST, **sent)[0]["spec"]["containers"][0]
    new, causes = created(NEWEST, "ContainerStopSignals=true", **sent)
    assert causes == [] and new["spec"]["containers"][0]["lifecycle"] == lifecycle
    sleeping = {"containers": main(lifecycle={"preStop": {"sleep": {"seconds": 1}}})}
    assert "lifecycle" not in created("1.29", **sleeping)[0]["spec"]["containers"][0]
    assert "lifecycle" in created("1.30", **sleeping)[0]["spec"]["containers"][0]
    sidecar = {"initContainers": init(restartPolicy="Always")}
    assert "restartPolicy" not in created("1.28", **sidecar)[0]["spec"]["initContainers"][0]
    assert "restartPolicy" in created("1.29", **sidecar)[0]["spec"]["initContainers"][0]
    images = {
        "volumes": [{"name": "v", "image": {"reference": "r"}}],
        "containers": main(volumeMounts=[{"name": "v", "mountPath": "/a"}]),
    }
    spec = created("1.34", **images)[0]["spec"]
    assert "volumes" not in spec and "volumeMounts" not in spec["containers"][0]
    spec = created("1.35", **images)[0]["spec"]
    assert spec["volumes"][0]["image"] == {"reference": "r", "pullPolicy": "Always"}


def test_defaults_of_the_resources_of_a_whole_pod() -> None:
    new, causes = created(
        NEWEST,
        resources={"limits": {"cpu": "2", "memory": "1Gi"}},
        containers=main(resources={"requests": {"cpu": "100m"}}),
    )
    assert causes == []
    assert new["spec"]["resources"]["requests"] == {"cpu": "100m", "memory": "1Gi"}
    assert new["status"]["qosClass"] == "Burstable"


def test_labels_of_the_pod_are_merged_into_selectors() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["a"], "mismatchLabelKeys": ["b"]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    new, causes = created(
        NEWEST, metadata={"labels": {"a": "1", "b": "2"}}, affinity={"podAffinity": required}
    )
    assert causes == []
    (stored,) = new["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert stored["labelSelector"]["matchExpressions"] == [
        {"key": "a", "operator": "In", "values": ["1"]},
        {"key": "b", "operator": "NotIn", "values": ["2"]},
    ]


def test_apparmor_annotations_become_fields() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/c"
    new, causes = created(NEWEST, metadata={"annotations": {key: "localhost/x"}})
    assert causes == []
    profile = {"type": "Localhost", "localhostProfile": "x"}
    assert new["spec"]["containers"][0]["securityContext"] == {"appArmorProfile": profile}
    context = {"appArmorProfile": {"type": "Unconfined"}}
    _, causes = created(
        NEWEST, metadata={"annotations": {key: "localhost/x"}}, containers=main(securityContext=context)
    )
    assert [text for _, text in causes] == ["Forbidden: apparmor type in annotation and field must match"]


def test_gated_pods_wait_and_may_only_narrow() -> None:
    old, causes = created(NEWEST, schedulingGates=[{"name": "g"}], nodeSelector={"a": "1"})
    assert causes == [] and old["metadata"]["generation"] == 1
    assert old["status"]["conditions"][0]["reason"] == "SchedulingGated"
    new, causes = updated(NEWEST, old, schedulingGates=[], nodeSelector={"a": "1", "b": "2"})
    assert causes == [] and new["metadata"]["generation"] == 2
    _, causes = updated(NEWEST, old, schedulingGates=[{"name": "h"}])
    assert causes == [
        (
            "spec.schedulingGates[0].name",
            "Forbidden: only deletion is allowed, but found new scheduling gate 'h'",
        )
    ]
    _, causes = updated(NEWEST, old, nodeSelector={})
    assert causes == [
        (
            "spec.nodeSelector",
            "Invalid value: null: only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        )
    ]


def test_resize_changes_cpu_and_memory_alone() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    old, _ = created(NEWEST, containers=main(resources=resources))
    more = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    changed = [{**old["spec"]["containers"][0], "resources": more, "image": "other"}]
    new, causes = updated(NEWEST, old, "resize", containers=changed)
    assert causes == [] and new["metadata"]["generation"] == 2
    assert new["spec"]["containers"][0]["resources"] == more
    assert new["spec"]["containers"][0]["image"] == "img:1"
    less = [{**old["spec"]["containers"][0], "resources": {"requests": {"cpu": "1"}}}]
    _, causes = updated(NEWEST, old, "resize", containers=less)
    assert causes == [("spec.containers[0].resources.limits", "Forbidden: resource limits cannot be removed")]
    _, causes = updated(NEWEST, old, "resize", containers=[{**old["spec"]["containers"][0], "resources": {}}])
    assert (
        "spec",
        'Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing',
    ) in causes
    assert {one.name for one in kinds("1.31")["pods"].subresources}.isdisjoint({"resize"})


def test_status_of_restarted_containers() -> None:
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    old, causes = created(
        NEWEST, restartPolicy="Never", containers=main(restartPolicy="Never", restartPolicyRules=rules)
    )
    assert causes == []
    definition = kinds(NEWEST)["pods"]
    for code, refused in ((42, 0), (1, 1)):
        status = {"name": "c", "ready": False, "restartCount": 0, "image": "", "imageID": "", "lastState": {}}
        ended = {**status, "state": {"terminated": {"exitCode": code, "startedAt": None, "finishedAt": None}}}
        before = {**old, "status": {**old["status"], "containerStatuses": [ended]}}
        after = {**before, "metadata": dict(old["metadata"])}
        after["status"] = {**before["status"], "containerStatuses": [{**status, "state": {}}]}
        _, causes = replace(definition, after, before, "status")
        assert len(causes) == refused


def test_a_refused_update_shows_the_changed_lines() -> None:
    old, _ = created(NEWEST)
    _, ((_, *texts),) = updated(NEWEST, old, hostNetwork=True)
    shown = texts[-1].partition("negative)\n")[2]
    assert shown.startswith("@@")
    assert shown.splitlines()[1:] == [
        '  "AutomountServiceAccountToken": null,',
        '  "NodeName": "",',
        '  "SecurityContext": {',
        '-  "HostNetwork": false,',
        '+  "HostNetwork": true,',
        '   "HostPID": false,',
        '   "HostIPC": false,',
        '   "ShareProcessNamespace": null,',
    ]


@pytest.mark.parametrize(("version", "known"), [("1.30", False), ("1.31", True)])
def test_gated_pods_say_since_when_they_wait(version: str, known: bool) -> None:
    stored, _ = created(version, schedulingGates=[{"name": "a"}])
    assert (stored["status"]["conditions"][0]["lastTransitionTime"] is not None) is known


@pytest.mark.parametrize(("version", "tracked"), [("1.32", False), ("1.33", True)])
def test_owners_of_ephemeral_containers(version: str, tracked: bool) -> None:
    old, _ = created(version)
    definition = kinds(version)["pods"]
    sent = {**old, "metadata": {**old["metadata"], "managedFields": [{"manager": "m"}]}}
    stored, _ = replace(definition, sent, old, "ephemeralcontainers")
    assert ("managedFields" in stored["metadata"]) is tracked


def test_an_operating_system_without_a_name() -> None:
    for version, text in (("1.33", "Required value: cannot be empty"), ("1.34", "Required value")):
        _, causes = created(version, os={})
        assert causes == [("spec.os.name", text)]
