"""Plugins for pods that are off by default and need no configuration."""

from __future__ import annotations

from typing import Any

from rewound.actors.admission.chain import Admission, validate_ephemeral
from rewound.actors.admission.plugin import Plugin
from rewound.actors.admission.plugins.always_pull_images import AlwaysPullImages
from rewound.actors.admission.plugins.extended_resource_toleration import ExtendedResourceToleration
from rewound.actors.admission.plugins.limit_pod_hard_anti_affinity_topology import (
    LimitPodHardAntiAffinityTopology,
)
from rewound.actors.admission.plugins.security_context_deny import SecurityContextDeny
from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.errors import Forbidden
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import CLUSTER
from rewound.actors.runtime.coroutines import without_waiting
from tests.actors.admission.admitted import CONTEXT, admitted
from tests.cases import cases

PODS = built_in(CLUSTER).find("", "v1", "pods")


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"containers": [], **spec}}


def mutated(plugin: Plugin, new: dict[str, Any], old: dict[str, Any] | None = None) -> Any:
    assert PODS is not None
    return admitted(plugin, PODS, "UPDATE" if old else "CREATE", new, old)["spec"]


def refusal(plugin: Plugin, new: dict[str, Any], old: dict[str, Any] | None = None) -> str:
    """Why `validate` refuses the pod; empty if it does not."""
    assert PODS is not None
    operation = "UPDATE" if old else "CREATE"
    request = AdmissionRequest(operation, PODS, "ns", "a", "", new, old, "user", False, CONTEXT)
    try:
        chain = Admission([plugin]).chain(PODS, operation, "")
        without_waiting(validate_ephemeral(chain, request))
    except Forbidden as error:
        return error.message.removeprefix('pods "a" is forbidden: ')
    return ""


def container(image: str, policy: str = "Never") -> dict[str, Any]:
    return {"name": "c", "image": image, "imagePullPolicy": policy}


def test_images_of_all_containers_are_always_pulled() -> None:
    new = pod(
        initContainers=[container("i")], containers=[container("a")], ephemeralContainers=[container("e")]
    )
    made = mutated(AlwaysPullImages(), new)
    policies = [one["imagePullPolicy"] for part in made.values() for one in part]
    assert policies == ["Always"] * 3
    assert refusal(AlwaysPullImages(), {**new, "spec": made}) == ""


def test_pull_policies_change_only_with_a_new_image() -> None:
    old = pod(containers=[container("a"), container("b")])
    swapped = pod(containers=[container("b"), container("a")])
    assert mutated(AlwaysPullImages(), swapped, old) == swapped["spec"]
    assert refusal(AlwaysPullImages(), swapped, old) == ""
    newer = pod(containers=[container("b"), container("c")])
    assert [one["imagePullPolicy"] for one in mutated(AlwaysPullImages(), newer, old)["containers"]] == [
        "Always",
        "Always",
    ]


def test_pull_policies_that_a_webhook_changed_are_refused() -> None:
    wrong = pod(containers=[container("a", "Always"), container("b")])
    assert refusal(AlwaysPullImages(), wrong) == (
        'spec.containers[1].imagePullPolicy: Unsupported value: "Never": supported values: "Always"'
    )


def test_tolerations_of_extended_resources() -> None:
    """One for each resource; a toleration with an end is replaced; resources of the cluster's own domain get none."""
    requests = {"cpu": "1", "example.com/gpu": "1", "cluster.io/x": "1", "requests.example.com/y": "1"}
    limited = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}
    other = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoExecute"}
    wanted = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    containers = [{"resources": {"requests": requests}}, {"resources": {"requests": requests}}]
    plugin = ExtendedResourceToleration(CLUSTER)
    assert mutated(plugin, pod(containers=containers))["tolerations"] == [wanted]
    assert mutated(plugin, pod(containers=containers, tolerations=[limited, other]))["tolerations"] == [
        wanted,
        other,
    ]
    assert mutated(plugin, pod(initContainers=containers))["tolerations"] == [wanted]
    assert "tolerations" not in mutated(plugin, pod(containers=[{"resources": {"requests": {"cpu": "1"}}}]))


@cases(
    ("affinity", "allowed"),
    [
        ({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}, False),
        ({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "cluster.io/hostname"}]}, True),
        ({"preferredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}, True),
        ({}, True),
    ],
)
def test_required_anti_affinity_is_limited_to_nodes(affinity: dict[str, Any], allowed: bool) -> None:
    text = (
        "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone "
        "but only key cluster.io/hostname is allowed"
    )
    found = refusal(LimitPodHardAntiAffinityTopology(CLUSTER), pod(affinity={"podAntiAffinity": affinity}))
    assert found == ("" if allowed else text)


@cases(
    ("spec", "why"),
    [
        ({"securityContext": {"supplementalGroups": []}}, "pod.Spec.SecurityContext.SupplementalGroups"),
        ({"securityContext": {"seLinuxOptions": {}}}, "pod.Spec.SecurityContext.SELinuxOptions"),
        ({"securityContext": {"runAsUser": 0}}, "pod.Spec.SecurityContext.RunAsUser"),
        ({"securityContext": {"fsGroup": 0}}, "pod.Spec.SecurityContext.FSGroup"),
        ({"containers": [{"securityContext": {"seLinuxOptions": {}}}]}, "SecurityContext.SELinuxOptions"),
        ({"containers": [{}, {"securityContext": {"runAsUser": 0}}]}, "SecurityContext.RunAsUser"),
        ({"initContainers": [{"securityContext": {"runAsUser": 1}}]}, "SecurityContext.RunAsUser"),
        ({"securityContext": {"runAsNonRoot": True, "runAsGroup": 1}}, ""),
        ({"containers": [{"securityContext": {"privileged": True, "runAsGroup": 1}}]}, ""),
    ],
)
def test_security_contexts_that_are_denied(spec: dict[str, Any], why: str) -> None:
    assert refusal(SecurityContextDeny(), pod(**spec)) == (f"{why} is forbidden" if why else "")
